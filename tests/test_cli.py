"""What the user sees of an error: the message, and the traceback on request."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from memrerank import cli
from memrerank.errors import ConfigError, DataError

ROOT = Path(__file__).parent.parent


@cli.friendly_errors
def job(error: Exception | None) -> float:
    if error is not None:
        raise error
    return 0.5


def test_the_result_is_handed_on() -> None:
    assert job(None) == 0.5


def test_an_error_of_ours_ends_with_its_message_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "memrerank"), pytest.raises(SystemExit) as ended:
        job(DataError("items.jsonl:7: no title"))
    assert ended.value.code == "\nDataError: items.jsonl:7: no title"  # a text: exit status 1
    assert caplog.records[-1].levelno == logging.DEBUG  # the log file keeps the traceback
    assert caplog.records[-1].exc_info is not None


def test_an_error_of_ours_that_hydra_wrapped_ends_with_its_message_alone() -> None:
    node = {"_target_": "memrerank.retrieval.embedding.EmbeddingSettings", "shard_rows": 0}

    @cli.friendly_errors
    def make() -> None:
        instantiate({"_target_": "builtins.dict", "nested": node})

    with pytest.raises(SystemExit, match=r"^\nConfigError: retrieval\.shard_rows=0 will not do"):
        make()


def test_an_error_of_someone_else_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        job(ZeroDivisionError())

    @cli.friendly_errors
    def make() -> None:
        instantiate({"_target_": "builtins.int", "nonsense": 1})

    with pytest.raises(InstantiationException):
        make()


def test_the_traceback_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMRERANK_TRACEBACK", "1")
    with pytest.raises(ConfigError):
        job(ConfigError("x"))


def test_a_sweep_goes_on_with_its_other_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "in_sweep", lambda: True)
    with pytest.raises(ConfigError):
        job(ConfigError("x"))


def test_outside_hydra_there_is_no_sweep() -> None:
    assert not cli.in_sweep()


def default_environment() -> dict[str, str]:
    """The environment of a user: HYDRA_FULL_ERROR, which CI sets, asks for tracebacks."""
    kept = {name: value for name, value in os.environ.items() if name != "HYDRA_FULL_ERROR"}
    return {**kept, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.parametrize("entry", ["train.py", "evaluate.py", "prepare.py"])
def test_a_typo_on_the_command_line_lists_the_choices(entry: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / entry), "category=electronic"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=default_environment(),
        check=False,
    )
    assert done.returncode == 1
    assert "Could not find 'category/electronic'" in done.stderr
    assert "electronics" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
