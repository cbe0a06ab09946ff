"""A recording as Parquet and back, and the command that does it."""

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cache import QUESTION, SPACE, Certain, Counter, cached, replayed, samples

from memrerank.errors import DataError, JudgeError
from memrerank.rerank.cache import CachedReranker, export
from memrerank.rerank.cache.__main__ import main
from memrerank.rerank.cache.export import export_answers, import_answers, read_stats
from memrerank.responses import ResponseStore


@pytest.fixture
def recording(tmp_path: Path) -> CachedReranker:
    reranker = cached(tmp_path, Certain())
    reranker.choose(samples(4))  # the third is invalid
    reranker.distribution([QUESTION])
    reranker.store.write({"0" * 64: "a rewritten query"})
    return reranker


def test_another_lab_replays_what_was_exported(tmp_path: Path, recording: CachedReranker) -> None:
    counts = export_answers(recording.store, tmp_path / "answers.parquet")
    assert counts == {"exported": 5, "skipped": 1}
    other = ResponseStore(tmp_path / "elsewhere" / "judge.sqlite")
    assert import_answers(other, tmp_path / "answers.parquet") == {
        "new": 5,
        "known": 0,
        "conflict": 0,
    }
    replay = CachedReranker(None, other.path, "readonly", SPACE)
    assert replay.choose(samples(4)) == replayed(recording.choose(samples(4)))
    assert replay.distribution([QUESTION]) == replayed(recording.distribution([QUESTION]))


def test_equal_recordings_give_equal_files(tmp_path: Path, recording: CachedReranker) -> None:
    export_answers(recording.store, tmp_path / "a.parquet")
    other = ResponseStore(tmp_path / "other.sqlite")
    import_answers(other, tmp_path / "a.parquet")
    export_answers(other, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_the_columns_say_what_was_asked_and_answered(
    tmp_path: Path, recording: CachedReranker
) -> None:
    export_answers(recording.store, tmp_path / "answers.parquet")
    rows = pq.read_table(tmp_path / "answers.parquet").to_pylist()
    assert [row["key"] for row in rows] == sorted(row["key"] for row in rows)
    third = next(row for row in rows if row["draw"] == [2])
    assert third["failure"] == "invalid"
    assert third["index"] is None
    assert third["products"] == ["a", "b"]
    assert (third["judge"], third["query_id"], third["question"]) == ("m", "q", "choose")
    assert (third["input_tokens"], third["output_tokens"]) == (3, 1)
    assert third["cost_usd"] == pytest.approx(0.3)
    sure = next(row for row in rows if row["question"] == "distribution")
    assert json.loads(sure["answer"])["probabilities"] == [1 / 3, 2 / 3]


def test_an_answer_that_is_there_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    for name, asked_before in (("mine", 0), ("theirs", 1)):
        judge = Counter()
        judge.asked = [QUESTION] * asked_before  # its answers are numbered on from here
        cached(tmp_path / name, judge).choose(samples(2))
    mine, theirs = (ResponseStore(tmp_path / n / "answers.sqlite") for n in ("mine", "theirs"))
    export_answers(theirs, tmp_path / "theirs.parquet")
    before = list(mine.rows())
    assert import_answers(mine, tmp_path / "theirs.parquet")["conflict"] == 2
    assert list(mine.rows()) == before
    assert import_answers(mine, tmp_path / "theirs.parquet", replace=True)["conflict"] == 2
    assert list(mine.rows()) == list(theirs.rows())
    assert import_answers(mine, tmp_path / "theirs.parquet")["known"] == 2


def spoil_key(rows: list[dict]) -> None:
    rows[1]["key"] = "short"


def spoil_json(rows: list[dict]) -> None:
    rows[1]["answer"] = "{"


def spoil_answer(rows: list[dict]) -> None:
    rows[1]["answer"] = "{}"


def spoil_about(rows: list[dict]) -> None:
    value = json.loads(rows[1]["answer"])
    del value["about"]["query_id"]
    rows[1]["answer"] = json.dumps(value)


def spoil_question(rows: list[dict]) -> None:
    rows[1]["answer"] = re.sub('"question":"[a-z]+"', '"question":"guess"', rows[1]["answer"])


def repeat_key(rows: list[dict]) -> None:
    rows[1]["key"] = rows[0]["key"]


def empty(rows: list[dict]) -> None:
    rows[1]["answer"] = rows[1]["key"] = None


@pytest.mark.parametrize("batch", [1, 2, 10])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_about, "row 2: what it says of its question is incomplete"),
        (spoil_question, "row 2: it answers no known question: 'guess'"),
        (empty, "row 2: the key None is not 64"),
        (spoil_key, r"row 2: the key 'short' is not 64"),
        (spoil_json, "row 2: Expecting"),
        (spoil_answer, "row 2: not a recorded answer"),
    ],
)
def test_a_broken_row_is_named_and_nothing_recorded(
    tmp_path: Path,
    recording: CachedReranker,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[list[dict]], None],
    message: str,
    batch: int,
) -> None:
    monkeypatch.setattr(export, "BATCH", batch)
    path = tmp_path / "answers.parquet"
    export_answers(recording.store, path)
    table = pq.read_table(path)
    rows = table.to_pylist()
    spoil(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    other = ResponseStore(tmp_path / "other.sqlite")
    with pytest.raises(DataError, match=message):
        import_answers(other, path)
    before = {row["key"] for row in rows[: 1 if batch == 1 else 0]}
    assert {key for part in other.rows() for key, _ in part} == before


def test_a_key_that_is_given_twice_is_named(tmp_path: Path, recording: CachedReranker) -> None:
    path = tmp_path / "answers.parquet"
    export_answers(recording.store, path)
    table = pq.read_table(path)
    rows = table.to_pylist()
    repeat_key(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    with pytest.raises(DataError, match=rf"row 2: the key {rows[0]['key']} was given before"):
        import_answers(ResponseStore(tmp_path / "other.sqlite"), path)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_an_export_in_parts_has_every_answer(
    tmp_path: Path, recording: CachedReranker, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(export, "BATCH", batch)
    export_answers(recording.store, tmp_path / "answers.parquet")
    other = ResponseStore(tmp_path / "other.sqlite")
    counts = import_answers(other, tmp_path / "answers.parquet")
    assert counts == {"new": 5, "known": 0, "conflict": 0}
    groups = pq.read_metadata(tmp_path / "answers.parquet")
    assert max(groups.row_group(i).num_rows for i in range(groups.num_row_groups)) == batch
    rows = [row for part in recording.store.rows() for row in part]
    assert [row for part in other.rows() for row in part] == rows[1:]  # the first is no answer


def test_ids_that_are_no_unicode_are_exported(tmp_path: Path) -> None:
    odd = replace(QUESTION, query_id="half a pair \ud83d")
    reranker = cached(tmp_path, Counter())
    first = reranker.choose([odd])
    export_answers(reranker.store, tmp_path / "answers.parquet")
    (row,) = pq.read_table(tmp_path / "answers.parquet").to_pylist()
    assert row["query_id"] == "half a pair ?"
    other = ResponseStore(tmp_path / "other.sqlite")
    import_answers(other, tmp_path / "answers.parquet")
    assert CachedReranker(None, other.path, "readonly", SPACE).choose([odd]) == replayed(first)


def test_a_damaged_record_ends_an_export_and_leaves_no_file(
    tmp_path: Path, recording: CachedReranker
) -> None:
    recording.store.write({"f" * 64: {"index": 1}})
    for work in (read_stats, lambda store: export_answers(store, tmp_path / "answers.parquet")):
        with pytest.raises(JudgeError, match=r"answers\.sqlite: the record f{64} is damaged"):
            work(recording.store)
    assert [path.name for path in tmp_path.iterdir() if "parquet" in path.name] == []


def test_an_export_that_cannot_be_written_is_told(
    tmp_path: Path, recording: CachedReranker
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for place in ("folder", "file/answers.parquet"):
        with pytest.raises(DataError, match=rf"{place}: cannot be written"):
            export_answers(recording.store, tmp_path / place)
    with pytest.raises(DataError, match=r"answers\.sqlite: is the recording itself"):
        export_answers(recording.store, recording.path)
    assert read_stats(recording.store).answers == 5


def test_other_files_are_refused(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "other.sqlite")
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        import_answers(store, tmp_path / "text.parquet")
    with pytest.raises(DataError, match=r"missing.parquet: there is no such file"):
        import_answers(store, tmp_path / "missing.parquet")
    pq.write_table(pa.table({"key": ["a"], "answer": ["b"]}), tmp_path / "foreign.parquet")
    with pytest.raises(DataError, match="its format is not stated"):
        import_answers(store, tmp_path / "foreign.parquet")
    less = pa.table({"key": ["a"]}).replace_schema_metadata({"format": export.FORMAT})
    pq.write_table(less, tmp_path / "less.parquet")
    with pytest.raises(DataError, match="not an export of answers"):
        import_answers(store, tmp_path / "less.parquet")
    assert not store.path.exists()


def test_stats(recording: CachedReranker) -> None:
    stats = read_stats(recording.store)
    assert (stats.answers, stats.other) == (5, 1)
    assert stats.by["question"] == {"choose": 4, "distribution": 1}
    assert stats.by["judge"] == {"m": 5}
    assert stats.by["result"] == {"valid": 4, "invalid": 1}
    assert stats.input_tokens == 1 + 2 + 3 + 4
    assert stats.cost_usd == pytest.approx(0.1 * 10)


def test_the_command(
    tmp_path: Path, recording: CachedReranker, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, parquet = str(recording.path), str(tmp_path / "answers.parquet")
    main(["stats", cache])
    assert "5 answers" in capsys.readouterr().out
    main(["export", cache, parquet])
    assert "5 answers\nleft out, no judge's answers: 1" in capsys.readouterr().out
    main(["import", str(tmp_path / "new.sqlite"), parquet])
    assert "5 new answers, 0 known already, 0 with another" in capsys.readouterr().out
    main(["vacuum", cache])
    assert "MB to" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"DataError: .*none.sqlite: no such recording"):
        main(["stats", str(tmp_path / "none.sqlite")])
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE answers (id INTEGER)")
    with pytest.raises(SystemExit, match=r"JudgeError: .*foreign.sqlite: not usable as a cache"):
        main(["stats", str(foreign)])
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "export" in capsys.readouterr().out
