"""Recorded answers as Parquet, for others to replay without a judge."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from memrerank.errors import DataError, JudgeError
from memrerank.rerank.cache.codec import decode_answer, is_answer
from memrerank.responses import ResponseStore
from memrerank.schema import Choice
from memrerank.storage import atomic_path

FORMAT = "memrerank answers 1"
BATCH = 10_000  # rows at once
KEY = re.compile(r"[0-9a-f]{64}")

# `key` and `answer` are what a replay reads; the other columns say the same for people.
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("answer", pa.string()),  # JSON
        ("question", pa.string()),
        ("judge", pa.string()),
        ("query_id", pa.string()),
        ("draw", pa.list_(pa.int64())),
        ("products", pa.list_(pa.string())),  # ids in the order shown
        ("index", pa.int64()),  # into products; null where there was no valid answer
        ("failure", pa.string()),
        ("input_tokens", pa.int64()),
        ("cached_input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("latency_seconds", pa.float64()),
    ],
    metadata={"format": FORMAT},
)


@dataclass
class Stats:
    """What a recording holds."""

    answers: int = 0
    other: int = 0  # values that are no judge's answers, such as rewritten queries
    by: dict[str, Counter[str]] = field(default_factory=dict)  # judge, question, result -> counts
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


def read_stats(store: ResponseStore) -> Stats:
    """Counts a recording's answers.

    Raises:
        JudgeError: the file cannot be read, or one of its records is damaged.
    """
    stats = Stats(by={"judge": Counter(), "question": Counter(), "result": Counter()})
    for _, value, choice in _answers(store):
        if choice is None:
            stats.other += 1
            continue
        stats.answers += 1
        stats.by["judge"][value["about"]["judge"]] += 1
        stats.by["question"][value["about"]["question"]] += 1
        stats.by["result"]["valid" if choice.failure is None else choice.failure.value] += 1
        stats.input_tokens += choice.usage.input
        stats.cached_input_tokens += choice.usage.cached_input
        stats.output_tokens += choice.usage.output
        stats.cost_usd += choice.cost
    return stats


def export_answers(store: ResponseStore, path: Path) -> Counter[str]:
    """Writes all answers of judges, in order of key, as Parquet; equal recordings, equal files.

    Returns:
        How many were `exported`, and how many values were `skipped` as no judge's answers.

    Raises:
        JudgeError: the recording cannot be read, or one of its records is damaged.
        DataError: the file cannot be written.
    """
    counts = Counter(exported=0, skipped=0)
    if path.resolve() == store.path.resolve():
        raise DataError(f"{path}: is the recording itself; name another file to write")
    try:
        with (
            atomic_path(path) as temporary,
            pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer,
        ):
            batch: list[dict[str, Any]] = []
            for key, value, choice in _answers(store):
                counts["skipped" if choice is None else "exported"] += 1
                if choice is not None:
                    batch.append(_row(key, value, choice))
                if len(batch) == BATCH:
                    writer.write_table(pa.Table.from_pylist(batch, SCHEMA))
                    batch = []
            writer.write_table(pa.Table.from_pylist(batch, SCHEMA))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be written ({error}); name another file") from error
    return counts


def import_answers(store: ResponseStore, path: Path, *, replace: bool = False) -> Counter[str]:
    """Records the answers of a Parquet file; a key that has another answer keeps it.

    Args:
        replace: take the file's answer instead.

    Returns:
        How many were `new`, `known` (equal), and in `conflict`.

    Raises:
        DataError: the file, or a row of it, is no such export. Rows from the batch of the first
            broken one on are not recorded.
        JudgeError: the answers cannot be recorded.
    """
    counts = Counter(new=0, known=0, conflict=0)
    start = 0
    for keys, answers in _read_batches(path):
        values: dict[str, Any] = {}
        for row, (key, text) in enumerate(zip(keys, answers, strict=True), start=start + 1):
            value = _checked(path, row, key, text)
            if key in values:
                raise DataError(f"{path}: row {row}: the key {key} was given before")
            values[key] = value
        known = store.read(list(values))
        conflicts = sum(value != values[key] for key, value in known.items())
        counts.update(
            new=len(values) - len(known), known=len(known) - conflicts, conflict=conflicts
        )
        store.write(values, replace=replace)
        start += len(keys)
    return counts


def _answers(store: ResponseStore) -> Iterator[tuple[str, dict[str, Any], Choice | None]]:
    """Keys, values, and the choices that they stand for; None for what is no judge's answer."""
    for rows in store.rows():
        for key, text in rows:
            value = store.load(key, text)
            if not is_answer(value):
                yield key, {}, None
                continue
            try:
                yield key, value, decode_answer(value)
            except ValueError as error:
                raise JudgeError(
                    f"{store.path}: the record {key} is damaged: {error}; restore a copy of the "
                    "file, or ask again with judge_cache.mode=refresh"
                ) from error


def _row(key: str, value: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    about = value["about"]
    return {
        "key": key,
        "answer": json.dumps(value, sort_keys=True, separators=(",", ":")),
        "question": about["question"],
        "judge": _whole(about["judge"]),
        "query_id": _whole(about["query_id"]),
        "draw": about["draw"],
        "products": [_whole(name) for name in about["products"]],
        "index": choice.index,
        "failure": None if choice.failure is None else choice.failure.value,
        "input_tokens": choice.usage.input,
        "cached_input_tokens": choice.usage.cached_input,
        "output_tokens": choice.usage.output,
        "cost_usd": choice.cost,
        "latency_seconds": choice.latency,
    }


def _whole(text: str) -> str:
    """The text, for people: half a surrogate pair, which broken ids hold, has no UTF-8."""
    return text.encode(errors="replace").decode()


def _read_batches(path: Path) -> Iterator[tuple[list[Any], list[Any]]]:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        with pq.ParquetFile(path) as file:
            told = (file.schema_arrow.metadata or {}).get(b"format", b"").decode(errors="replace")
            if told != FORMAT or not {"key", "answer"} <= set(file.schema_arrow.names):
                raise DataError(
                    f"{path}: not an export of answers (its format is {told or 'not stated'}, "
                    f"wanted: {FORMAT})"
                )
            for batch in file.iter_batches(BATCH, columns=["key", "answer"]):
                yield batch.column("key").to_pylist(), batch.column("answer").to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error})") from error


def _checked(path: Path, row: int, key: object, text: object) -> Any:
    """The value of a row."""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise DataError(f"{path}: row {row}: the key {key!r} is not 64 hexadecimal digits")
    try:
        value = json.loads(str(text))
        decode_answer(value)
    except ValueError as error:
        raise DataError(f"{path}: row {row}: {error}") from error
    return value
