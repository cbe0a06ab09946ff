"""Parquet: types are checked by the schema, values row by row."""

from pathlib import Path

import duckdb

from memrerank.data.readers.faults import SOUND, first_line, shown, sql_path
from memrerank.data.readers.kinds import Columns, Kind, in_range, quoted, range_fault
from memrerank.errors import DataError

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
INTEGERS |= {f"U{name}" for name in INTEGERS}


def select(connection: duckdb.DuckDBPyConnection, path: Path, columns: Columns) -> str:
    """SQL for the columns of a file and whether each row is sound.

    Raises:
        DataError: the file is not Parquet, lacks a column, or one has a type that cannot do.
    """
    schema = read_schema(connection, path)
    _require(path, schema, columns)
    values = [
        f"TRY_CAST({quoted(name)} AS {kind.sql_type}) AS {quoted(name)}"
        for name, kind in columns.fields.items()
    ]
    texts = [
        f"{_json(name) if name in schema else 'NULL'} AS {quoted(name)}"
        for name in columns.optional
    ]
    return f"""
        SELECT {", ".join((*values, *texts))}, {_check(columns)} AS {SOUND}
        FROM {_scan(path)}
    """


def _json(name: str) -> str:
    """SQL for a value of any type as JSON; where there is none, NULL instead of JSON's null."""
    return f"CASE WHEN {quoted(name)} IS NOT NULL THEN to_json({quoted(name)}) END"


def _check(columns: Columns) -> str:
    """SQL for whether a row of the file is sound."""
    checks = []
    for name, kind in columns.fields.items():
        value = f"TRY_CAST({quoted(name)} AS {kind.sql_type})"
        check = in_range(value, kind)
        nullable = name in columns.nullable
        checks.append(f"({quoted(name)} IS NULL OR {check})" if nullable else f"({check})")
    return " AND ".join(checks) or "true"


def _scan(path: Path) -> str:
    return f"read_parquet({sql_path(path)}, hive_partitioning = false, file_row_number = true)"


def count(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """The number of rows of a file, out of its footer."""
    ((number,),) = connection.execute(f"SELECT count(*) FROM {_scan(path)}").fetchall()
    return int(number)


def read_schema(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[str, str]:
    """The type of each column by name, as DuckDB calls it.

    Raises:
        DataError: the file is not Parquet, or not all of it is there.
    """
    try:
        rows = connection.execute(
            f"DESCRIBE SELECT * EXCLUDE file_row_number FROM {_scan(path)}"
        ).fetchall()
    except duckdb.Error as error:
        raise DataError(f"{path}: {_damaged(error)}") from error
    return {row[0]: row[1] for row in rows}


def _damaged(error: duckdb.Error) -> str:
    return (
        f"cannot be read as Parquet ({first_line(error)}); "
        "the file is damaged or was not copied whole: fetch it again"
    )


def _require(path: Path, schema: dict[str, str], columns: Columns) -> None:
    told = ", ".join(f"{name} {shown(sql_type)}" for name, sql_type in schema.items())
    missing = [name for name in columns.fields if name not in schema]
    if missing:
        word = "column" if len(missing) == 1 else "columns"
        raise DataError(f"{path}: lacks the {word} {', '.join(missing)}; its columns are {told}")
    for name, kind in columns.fields.items():
        allowed = {"VARCHAR"} if kind is Kind.text else INTEGERS
        if schema[name] not in allowed:
            wanted = "UTC milliseconds, as an integer" if kind is Kind.milliseconds else kind.words
            raise DataError(
                f"{path}: the column {name} is of type {shown(schema[name])}; it must hold "
                f"{wanted}; its columns are {told}"
            )


def first_fault(connection: duckdb.DuckDBPyConnection, path: Path, columns: Columns) -> str | None:
    """`path: row number: what is wrong` for the first row at fault, counted from 1."""
    names = ", ".join(map(quoted, columns.fields))
    try:
        row = connection.execute(
            f"""SELECT file_row_number, {names} FROM {_scan(path)}
                WHERE NOT ({_check(columns)}) ORDER BY file_row_number LIMIT 1"""
        ).fetchone()
    except duckdb.Error as error:
        return f"{path}: {_damaged(error)}"
    if row is None:
        return None
    for (name, kind), value in zip(columns.fields.items(), row[1:], strict=True):
        if fault := _value_fault(name, value, kind, name in columns.nullable):
            return f"{path}: row {row[0] + 1}: {fault}"
    return None


def _value_fault(name: str, value: str | int | None, kind: Kind, nullable: bool) -> str | None:
    if value is None:
        return None if nullable else f"the column {name} has no value"
    return range_fault(name, value, kind) if isinstance(value, int) else None
