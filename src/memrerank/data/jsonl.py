"""JSON Lines files read into DuckDB tables, with faults told by file and line number.

DuckDB parses and filters; Python looks at single lines only after DuckDB has met a fault, to say
which line it is and what is wrong with it.
"""

import glob
import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import duckdb

from memrerank.errors import DataError

JSON_TYPES: dict[type, str] = {str: "'VARCHAR'", int: "'BIGINT', 'UBIGINT'"}
SQL_TYPES: dict[type, str] = {str: "VARCHAR", int: "BIGINT"}
WORDS: dict[type, str] = {str: "a string", int: "an integer"}


def read_jsonl(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    paths: Sequence[Path],
    fields: Mapping[str, type],
    *,
    optional: Sequence[str] = (),
    nullable: Sequence[str] = (),
    where: str = "TRUE",
) -> None:
    """Creates `table` from the lines of `paths`: `fields`, `optional` and `filename`.

    Args:
        fields: required keys and their type, `str` or `int`; columns VARCHAR and BIGINT.
        optional: keys that may be absent and hold any JSON; columns of JSON text.
        nullable: those of `fields` whose value, but not whose key, may be missing.
        where: which rows to keep, in SQL over the columns. Every line is checked all the same.

    Raises:
        DataError: a file cannot be read, or a line is no JSON object with these fields.
    """
    columns = ", ".join(f"'{name}': 'JSON'" for name in (*fields, *optional))
    values = ", ".join(
        f"TRY_CAST({name} ->> '$' AS {SQL_TYPES[kind]}) AS {name}" for name, kind in fields.items()
    )
    suspect = " OR ".join(
        f"coalesce(json_type({name}), '') NOT IN ({JSON_TYPES[kind]})"
        for name, kind in fields.items()
    )
    query = f"""
        CREATE OR REPLACE TEMP TABLE {table} AS
        SELECT * FROM (
            SELECT {", ".join((values, *optional))}, filename, {suspect} AS suspect
            FROM read_json(?, format = 'newline_delimited', columns = {{{columns}}},
                           filename = true)
        ) WHERE suspect OR ({where})
    """
    check = line_check(fields, nullable)
    try:
        connection.execute(query, [[glob.escape(str(path)) for path in paths]])
    except duckdb.Error as error:
        raise _explain(error, paths, check) from error
    suspects = connection.execute(f"SELECT DISTINCT filename FROM {table} WHERE suspect").fetchall()
    for (name,) in sorted(suspects):
        if fault := first_fault(Path(name), check):
            raise DataError(fault)
    connection.execute(f"DELETE FROM {table} WHERE suspect AND NOT ({where})")
    connection.execute(f"ALTER TABLE {table} DROP COLUMN suspect")


def line_check(
    fields: Mapping[str, type], nullable: Sequence[str] = ()
) -> Callable[[Any], str | None]:
    """A function that says what is wrong with one parsed line, or None."""

    def check(record: Any) -> str | None:
        if not isinstance(record, dict):
            return f"expected a JSON object, found {json.dumps(record)[:60]}"
        for name, kind in fields.items():
            if name not in record:
                return f"the field {name!r} is missing"
            value = record[name]
            if value is None and name in nullable:
                continue
            if type(value) is not kind:
                return f"the field {name!r} must be {WORDS[kind]}, found {json.dumps(value)[:60]}"
        return None

    return check


def first_fault(path: Path, check: Callable[[Any], str | None]) -> str | None:
    """`path:line: what is wrong` for the first line at fault; None when all lines are sound."""
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip() and (fault := _line_fault(line, check)):
                    return f"{path}:{number}: {fault}"
    except (EOFError, OSError, zlib.error) as error:
        return (
            f"{path}: cannot be read past line {number} ({error}); "
            "the file is damaged or was not copied whole: fetch it again"
        )
    return None


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _line_fault(line: bytes, check: Callable[[Any], str | None]) -> str | None:
    try:
        record = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start + 1} of the line"
    except ValueError as error:
        return f"broken JSON ({error})"
    return check(record)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _explain(
    error: duckdb.Error, paths: Sequence[Path], check: Callable[[Any], str | None]
) -> DataError:
    """The message for a failed read: the first faulty line, or DuckDB's own first line."""
    text = str(error)
    named = [path for path in paths if f'"{path}"' in text or text.rstrip().endswith(str(path))]
    for path in named or paths:
        if fault := first_fault(path, check):
            return DataError(fault)
    where = ", ".join(map(str, named or paths[:1]))
    return DataError(f"{where}: cannot be read: {text.splitlines()[0]}")
