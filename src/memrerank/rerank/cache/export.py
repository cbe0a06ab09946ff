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
from memrerank.rerank.cache.codec import decode_choice
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
    output_tokens: int = 0
    cost_usd: float = 0.0


def read_stats(store: ResponseStore) -> Stats:
    """Counts a recording's answers."""
    stats = Stats(by={"judge": Counter(), "question": Counter(), "result": Counter()})
    for _, value, choice in _answers(store):
        if choice is None:
            stats.other += 1
            continue
        stats.answers += 1
        about = value.get("about", {})
        stats.by["judge"][str(about.get("judge"))] += 1
        stats.by["question"][str(about.get("question"))] += 1
        stats.by["result"]["valid" if choice.failure is None else choice.failure.value] += 1
        stats.input_tokens += choice.usage.input
        stats.output_tokens += choice.usage.output
        stats.cost_usd += choice.cost
    return stats


def export_answers(store: ResponseStore, path: Path) -> Counter[str]:
    """Writes all answers of judges, in order of key, as Parquet; equal recordings, equal files.

    Returns:
        How many were `exported`, and how many values were `skipped` as no judge's answers.
    """
    counts: Counter[str] = Counter()
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, SCHEMA) as writer:
        batch: list[dict[str, Any]] = []
        for key, value, choice in _answers(store):
            counts["skipped" if choice is None else "exported"] += 1
            if choice is not None:
                batch.append(_row(key, value, choice))
            if len(batch) == BATCH:
                writer.write_table(pa.Table.from_pylist(batch, SCHEMA))
                batch = []
        writer.write_table(pa.Table.from_pylist(batch, SCHEMA))
    return counts


def import_answers(store: ResponseStore, path: Path, *, replace: bool = False) -> Counter[str]:
    """Records the answers of a Parquet file; a key that has another answer keeps it.

    Args:
        replace: take the file's answer instead.

    Returns:
        How many were `new`, `known` (equal), and in `conflict`.

    Raises:
        DataError: the file, or a row of it, is no such export; nothing of that batch is recorded.
    """
    counts: Counter[str] = Counter()
    start = 0
    for keys, answers in _read_batches(path):
        values = {}
        for row, (key, text) in enumerate(zip(keys, answers, strict=True), start=start + 1):
            values[key] = _checked(path, row, key, text)
        known = store.read(list(values))
        conflicts = {key for key, value in known.items() if value != values[key]}
        counts["conflict"] += len(conflicts)
        counts["known"] += len(known) - len(conflicts)
        counts["new"] += len(values) - len(known)
        store.write(values, replace=replace)
        start += len(keys)
    return counts


def _answers(store: ResponseStore) -> Iterator[tuple[str, dict[str, Any], Choice | None]]:
    for rows in store.rows():
        for key, text in rows:
            try:
                value = json.loads(text)
            except ValueError as error:
                raise JudgeError(f"{store.path}: the record {key} is no JSON ({error})") from error
            try:
                yield key, value, decode_choice(value)
            except ValueError:
                yield key, value if isinstance(value, dict) else {}, None


def _row(key: str, value: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    about = value.get("about", {})
    return {
        "key": key,
        "answer": json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
        **{name: about.get(name) for name in ("question", "judge", "query_id", "draw", "products")},
        "index": choice.index,
        "failure": None if choice.failure is None else choice.failure.value,
        "input_tokens": choice.usage.input,
        "cached_input_tokens": choice.usage.cached_input,
        "output_tokens": choice.usage.output,
        "cost_usd": choice.cost,
        "latency_seconds": choice.latency,
    }


def _read_batches(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    try:
        with pq.ParquetFile(path) as file:
            told = (file.schema_arrow.metadata or {}).get(b"format", b"").decode()
            if told != FORMAT:
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
        decode_choice(value)
    except ValueError as error:
        raise DataError(f"{path}: row {row}: {error}") from error
    return value
