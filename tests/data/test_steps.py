"""Steps: made once, made again when something changed, and never half-made."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memrerank.data.engine import EngineSettings, connect, copy, literal, view
from memrerank.data.steps import Steps
from memrerank.errors import ConfigError


def make_steps(folder: Path) -> Steps:
    return Steps(folder / "steps", EngineSettings(threads=1))


def numbers(connection, out: Path) -> dict[str, int]:
    copy(connection, "SELECT * FROM range(3) t(n)", out)
    return {"rows": 3}


def test_a_step_is_made_once_and_found_by_a_later_run(tmp_path: Path):
    first = make_steps(tmp_path).run("numbers", {"top": 3}, numbers)
    assert (first.made, first.counts) == (True, {"rows": 3})

    def never(connection, out):
        raise AssertionError("made a second time")

    again = make_steps(tmp_path).run("numbers", {"top": 3}, never)
    assert (again.path, again.sha256, again.counts) == (first.path, first.sha256, first.counts)
    assert not again.made
    other = make_steps(tmp_path).run("numbers", {"top": 4}, numbers)
    assert other.made
    assert other.path != first.path
    assert other.sha256 == first.sha256  # the same rows: what depends on it is not made again


@pytest.mark.parametrize("damage", ["file", "record", "no record", "no file"])
def test_what_is_damaged_is_made_again(tmp_path: Path, damage: str, caplog):
    first = make_steps(tmp_path).run("numbers", {}, numbers)
    record = first.path.with_name(first.path.name + ".json")
    if damage == "file":
        time.sleep(0.01)  # the clock of the file system is coarse
        first.path.write_bytes(first.path.read_bytes()[:-1] + b"?")
    elif damage == "record":
        record.write_text('{"sha256"')
    else:
        (record if damage == "no record" else first.path).unlink()
    again = make_steps(tmp_path).run("numbers", {}, numbers)
    assert (again.made, again.sha256) == (True, first.sha256)
    assert bool(caplog.records) == (damage in ("file", "record"))


def test_a_failed_step_leaves_nothing_and_keeps_those_before_it(tmp_path: Path):
    steps = make_steps(tmp_path)
    first = steps.run("numbers", {}, numbers)

    def fails(connection, out):
        numbers(connection, out)
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError):
        steps.run("second", {}, fails)
    names = {path.name for path in steps.folder.glob("*.parquet*")}
    assert names == {first.path.name, first.path.name + ".json"}


def test_a_source_file_is_hashed_again_only_when_it_changed(tmp_path: Path, monkeypatch):
    source = tmp_path / "source.csv"
    source.write_text("abc")
    steps = make_steps(tmp_path)
    digest = steps.source(source)
    assert digest == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc"
    monkeypatch.setattr("memrerank.storage.file_sha256", lambda path: "asked again")
    assert make_steps(tmp_path).source(source) == digest
    source.write_text("abcd")
    assert make_steps(tmp_path).source(source) == "asked again"
    assert list(steps.sources) == [str(source)]


def test_lost_hashes_cost_time_alone(tmp_path: Path):
    first = make_steps(tmp_path).run("numbers", {}, numbers)
    (tmp_path / "steps/hashes.json").write_text("[")
    again = make_steps(tmp_path).run("numbers", {}, numbers)
    assert (again.made, again.sha256) == (False, first.sha256)


KILLED = """
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_steps import make_steps, numbers
steps = make_steps(Path({folder!r}))
steps.run("first", {{}}, numbers)
def slow(connection, out):
    numbers(connection, out)
    print("half-way", flush=True)
    time.sleep(60)
steps.run("second", {{}}, slow)
"""


def test_a_run_killed_in_a_step_goes_on_with_that_step(tmp_path: Path):
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "half-way\n"
        os.kill(run.pid, signal.SIGKILL)
    steps = make_steps(tmp_path)
    assert not steps.run("first", {}, numbers).made
    second = steps.run("second", {}, numbers)
    assert second.made
    undisturbed = make_steps(tmp_path / "other").run("second", {}, numbers)
    assert second.sha256 == undisturbed.sha256
    record = json.loads(second.path.with_name(second.path.name + ".json").read_text())
    assert record["sha256"] == second.sha256


def test_what_a_killed_run_left_long_ago_is_removed(tmp_path: Path):
    made = make_steps(tmp_path).run("numbers", {}, numbers)
    made.path.unlink()
    old, young = (made.path.with_name(f".{made.path.name}.{pid}.tmp") for pid in (1, 2))
    for left in (old, young):
        left.write_text("half")
    os.utime(old, (time.time() - 90_000,) * 2)
    assert make_steps(tmp_path).run("numbers", {}, numbers).made
    assert (old.exists(), young.exists()) == (False, True)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (EngineSettings(memory_limit="much"), "data.memory_limit='much'"),
        (EngineSettings(threads=0), "data.threads=0"),
    ],
)
def test_limits_that_will_not_do_are_named(tmp_path: Path, settings, named):
    with pytest.raises(ConfigError, match=named), connect(settings, tmp_path):
        pass


def test_the_limits_reach_the_database(tmp_path: Path):
    settings = EngineSettings("123MB", tmp_path / "it's here", 1)
    with connect(settings, tmp_path) as connection:
        values = dict(
            connection.execute(
                "SELECT name, value FROM duckdb_settings() "
                "WHERE name IN ('memory_limit', 'temp_directory', 'threads')"
            ).fetchall()
        )
    assert values["temp_directory"] == str(tmp_path / "it's here")
    assert values["threads"] == "1"
    assert values["memory_limit"].startswith("117.")  # MiB


def test_copies_of_equal_rows_are_equal_files(tmp_path: Path):
    digests = set()
    for threads in (1, 2):
        with connect(EngineSettings(threads=threads), tmp_path) as connection:
            rows = "SELECT hash(n) % 1000 AS h, n FROM range(500000) t(n) ORDER BY h, n"
            copy(connection, rows, tmp_path / "out.parquet")
            view(connection, "out", [tmp_path / "out.parquet"])
            assert connection.execute("SELECT sum(n) FROM out").fetchall() == [(124999750000,)]
        digests.add((tmp_path / "out.parquet").read_bytes())
    assert len(digests) == 1


def test_literals_are_quoted():
    assert literal("it's") == "'it''s'"
