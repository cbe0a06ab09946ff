"""JSON Lines: one JSON object a line; blank lines are not rows."""

import codecs
import json
from pathlib import Path
from typing import Any

import duckdb

from memrerank.data.engine import literal
from memrerank.data.readers.faults import SOUND, UNREADABLE, damaged, open_binary, sql_path
from memrerank.data.readers.kinds import Columns, Kind, in_range, quoted, range_fault

PYTHON_TYPES: dict[Kind, type] = {Kind.text: str, Kind.integer: int, Kind.milliseconds: int}


def select(connection: duckdb.DuckDBPyConnection, path: Path, columns: Columns) -> str:
    """SQL for the columns of a file and whether each row is sound."""
    values = [
        f"TRY_CAST({quoted(name)} ->> '$' AS {kind.sql_type}) AS {quoted(name)}"
        for name, kind in columns.fields.items()
    ]
    checks = [_check(name, kind, name in columns.nullable) for name, kind in columns.fields.items()]
    names = [quoted(name) for name in columns.optional]
    return f"""
        SELECT {", ".join((*values, *names))}, {" AND ".join(checks) or "true"} AS {SOUND}
        FROM ({_objects(path, columns)})
    """


def _objects(path: Path, columns: Columns) -> str:
    """SQL for the columns as JSON; with the whole object, where something is nullable.

    DuckDB's quicker reader does not tell a key that is missing from one whose value is null.
    """
    names = (*columns.fields, *columns.optional)
    if not columns.nullable:
        listed = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
        return f"""
            SELECT * FROM read_json({sql_path(path)}, format = 'newline_delimited',
                                    hive_partitioning = false, columns = {{{listed}}})
        """
    structure = json.dumps(dict.fromkeys(names, "JSON"))
    return f"""
        SELECT unnest(json_transform(json, {literal(structure)})), json AS whole_object
        FROM read_ndjson_objects({sql_path(path)}, hive_partitioning = false)
    """


def _check(name: str, kind: Kind, nullable: bool) -> str:
    value = quoted(name)
    if kind is Kind.text:
        check = f"coalesce(json_type({value}), '') = 'VARCHAR'"
    else:
        number = f"TRY_CAST({value} ->> '$' AS BIGINT)"
        integer = f"coalesce(json_type({value}), '') IN ('BIGINT', 'UBIGINT')"
        check = f"({integer} AND {in_range(number, kind)})"
    if not nullable:
        return check
    there = literal("$." + quoted(name))
    return f"({check} OR ({value} IS NULL AND json_exists(whole_object, {there})))"


def count(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """The number of rows of a file."""
    with open_binary(path) as file:
        return sum(1 for line in file if not line.isspace())


def first_fault(connection: duckdb.DuckDBPyConnection, path: Path, columns: Columns) -> str | None:
    """`path:line: what is wrong` for the first line at fault; None when all lines are sound."""
    number = 0
    try:
        with open_binary(path) as file:
            for number, line in enumerate(file, start=1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if line.strip() and (fault := _line_fault(line, columns)):
                    return f"{path}:{number}: {fault}"
    except UNREADABLE as error:
        return damaged(path, number, error)
    return None


def _line_fault(line: bytes, columns: Columns) -> str | None:
    try:
        record = json.loads(line.rstrip().decode("utf-8"), parse_constant=_refuse_constant)
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start + 1} of the line"
    except UnicodeEncodeError as error:
        return f"half a character ({error.object[error.start]!a}) in a string"
    except ValueError as error:
        return f"broken JSON ({error})"
    if not isinstance(record, dict):
        return f"expected a JSON object, found {json.dumps(record)[:60]}"
    return _record_fault(record, columns)


def _record_fault(record: dict[str, Any], columns: Columns) -> str | None:
    for name, kind in columns.fields.items():
        if name not in record:
            return f"the field {name!r} is missing"
        value = record[name]
        if value is None and name in columns.nullable:
            continue
        if type(value) is not PYTHON_TYPES[kind]:
            return f"the field {name!r} must be {kind.words}, found {json.dumps(value)[:60]}"
        if isinstance(value, int) and (fault := range_fault(name, value, kind)):
            return fault
    return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
