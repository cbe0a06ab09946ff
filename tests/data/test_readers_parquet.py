"""Parquet: what is read agrees with what was written, and faults are told by row or schema."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import NOON, counted_rows_of, fault_of, rows_of

from memrerank.data.readers import Kind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.parquet"


def write(path: Path, rows_per_group: int = 5, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path, row_group_size=rows_per_group)


def purchases(size: int, **others: Any) -> dict[str, Any]:
    return {
        "rating": [5.0] * size,
        "time": [NOON + n for n in range(size)],
        "user": [f"u{n}" for n in range(size)],
        "number": list(range(size)),
    } | others


def test_columns_come_in_any_order_and_others_are_ignored(path):
    write(path, **purchases(12))
    assert counted_rows_of(path, where="number >= 10") == (
        12,
        [("u10", 10, NOON + 10), ("u11", 11, NOON + 11)],
    )


@pytest.mark.parametrize("integers", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
@pytest.mark.parametrize(
    "strings", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_every_width_of_integers_and_strings(path, integers, strings):
    texts = ["", "naïve 日本語\n🖊"]
    write(
        path, user=pa.array(texts).cast(strings), number=pa.array([0, 127], integers), time=[0, 1]
    )
    assert rows_of(path) == [("", 0, 0), (texts[1], 127, 1)]


DETAILS = [{"Brand": "Pen & Co", "n": None}, None, {"Brand": 'say "hi"', "n": 2}]
FEATURES = [["dries fast"], [], None]


def test_optional_columns_of_any_type_are_json_texts(path):
    as_texts = [json.dumps(one) if one else None for one in DETAILS]
    write(path, id=["a", "b", "c"], details=DETAILS, features=FEATURES, loader=as_texts)
    read = rows_of(
        path, fields={"id": Kind.text}, optional=("details", "features", "loader", "absent")
    )
    parsed = [tuple(text if text is None else json.loads(text) for text in row[1:]) for row in read]
    assert parsed == list(zip(DETAILS, FEATURES, as_texts, [None] * 3, strict=True))
    assert [row[0] for row in read] == ["a", "b", "c"]


def test_nullable_fields_may_be_null(path):
    nothing = {"number": pa.array([None, 5], pa.int64()), "user": [None, "u"]}
    write(path, **purchases(2, **nothing))
    assert rows_of(path, nullable=("user", "number")) == [(None, None, NOON), ("u", 5, NOON + 1)]
    assert fault_of(path, nullable=("number",)) == ": row 1: the column user has no value"


ROW_FAULTS = [
    ("user", None, "the column user has no value"),
    ("number", None, "the column number has no value"),
    (
        "time",
        1588687728,
        "the field 'time' is 1588687728, which looks like seconds; it must be UTC milliseconds",
    ),
    ("time", -5, "the field 'time' is -5, which is before 1970; it must be UTC milliseconds"),
    (
        "time",
        10**14,
        "the field 'time' is 100000000000000, which looks like micro- or nanoseconds; "
        "it must be UTC milliseconds",
    ),
]


@pytest.mark.parametrize(("column", "value", "fault"), ROW_FAULTS)
def test_a_faulty_row_is_told_by_its_number(path, column, value, fault):
    columns = purchases(20)
    columns[column][11] = columns[column][17] = value
    write(path, **columns)
    assert fault_of(path) == f": row 12: {fault}"
    assert fault_of(path, where="number = 3") == f": row 12: {fault}"


def test_an_unsigned_integer_that_is_too_large(path):
    write(path, **purchases(1, number=pa.array([2**63], pa.uint64())))
    assert fault_of(path) == (
        ": row 1: the field 'number' is 9223372036854775808, which does not fit in 64 bits"
    )


SCHEMA_FAULTS = [
    (
        {"user": [1]},
        ": the column user is of type BIGINT; it must hold a string; "
        "its columns are rating DOUBLE, time BIGINT, user BIGINT, number BIGINT",
    ),
    (
        {"number": [1.0]},
        ": the column number is of type DOUBLE; it must hold an integer; "
        "its columns are rating DOUBLE, time BIGINT, user VARCHAR, number DOUBLE",
    ),
    (
        {"time": pa.array([NOON], pa.timestamp("ms"))},
        ": the column time is of type TIMESTAMP; it must hold UTC milliseconds, as an integer; "
        "its columns are rating DOUBLE, time TIMESTAMP, user VARCHAR, number BIGINT",
    ),
]


@pytest.mark.parametrize(("columns", "fault"), SCHEMA_FAULTS)
def test_a_column_of_a_type_that_cannot_do_is_told_with_the_schema(path, columns, fault):
    write(path, **purchases(1, **columns))
    assert fault_of(path) == fault


def test_a_missing_column_is_told_with_the_schema(path):
    write(path, User=["ann"], time=[1])
    assert fault_of(path) == (
        ": lacks the columns user, number; its columns are User VARCHAR, time BIGINT"
    )


def test_what_is_no_parquet_or_not_all_of_it(path):
    write(path, **purchases(500))
    whole = path.read_bytes()
    for damage in (b"", b"user,number\n", whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(damage)
        message = fault_of(path)
        assert message.startswith(": cannot be read as Parquet (")
        assert message.endswith("the file is damaged or was not copied whole: fetch it again")


def test_damage_inside_a_column(path):
    write(path, rows_per_group=500, **purchases(500))
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * 3000 + whole[3100:])
    assert fault_of(path).startswith(": cannot be read")
