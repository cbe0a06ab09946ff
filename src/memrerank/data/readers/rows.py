"""`read_rows`: a file of any format, as a table whose every row has been checked."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from memrerank.data.engine import literal
from memrerank.data.readers import delimited, jsonl, parquet
from memrerank.data.readers.faults import SOUND, UNREADABLE, first_line
from memrerank.data.readers.kinds import Columns, Kind, quoted
from memrerank.errors import DataError


@dataclass(frozen=True, slots=True)
class Format:
    """What there is to know of a file format.

    select: SQL that gives the columns of a file, and whether each row is sound.
    count: the number of rows of a file that has been read.
    first_fault: which row is the first at fault and why; None where none is.
    """

    select: Callable[[duckdb.DuckDBPyConnection, Path, Columns], str]
    count: Callable[[duckdb.DuckDBPyConnection, Path], int]
    first_fault: Callable[[duckdb.DuckDBPyConnection, Path, Columns], str | None]


JSONL = Format(jsonl.select, jsonl.count, jsonl.first_fault)
CSV = Format(delimited.select, delimited.count, delimited.first_fault)
PARQUET = Format(parquet.select, parquet.count, parquet.first_fault)

FORMATS = {
    ".jsonl": JSONL,
    ".jsonl.gz": JSONL,
    ".csv": CSV,
    ".csv.gz": CSV,
    ".parquet": PARQUET,
}
SUFFIXES = tuple(FORMATS)

FAULT = "a row breaks the rules of its columns"
MISTAKES = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)  # in `where`


def read_rows(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    paths: Sequence[Path],
    fields: Mapping[str, Kind],
    *,
    optional: Sequence[str] = (),
    nullable: Sequence[str] = (),
    where: str = "TRUE",
) -> int:
    """Creates the temporary table `table` from files and returns how many rows they have.

    Args:
        paths: `.jsonl`, `.jsonl.gz`, `.csv`, `.csv.gz` or `.parquet`.
        fields: required columns: VARCHAR for text, BIGINT for the others.
        optional: columns that may be absent and hold anything: JSON text, NULL where there is
            nothing. A text is a JSON string, whatever it says.
        nullable: those of `fields` whose value, but not whose column, may be missing.
        where: which rows to keep, in SQL over the columns; it may ask other tables. Every row is
            checked and counted all the same.

    Raises:
        DataError: a file cannot be read, or a row has not what `fields` say.
    """
    columns = Columns(fields, optional, nullable)
    types = {name: kind.sql_type for name, kind in fields.items()} | dict.fromkeys(optional, "JSON")
    declared = ", ".join(f"{quoted(name)} {sql_type}" for name, sql_type in types.items())
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({declared})")
    return sum(_add_file(connection, table, path, columns, where) for path in paths)


def _add_file(
    connection: duckdb.DuckDBPyConnection, table: str, path: Path, columns: Columns, where: str
) -> int:
    """Adds the rows of a file to the table and returns how many the file has."""
    format = _format_of(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist or is no file")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} may not be read; change its permissions")
    names = ", ".join(map(quoted, (*columns.fields, *columns.optional)))
    try:
        relation = format.select(connection, path, columns)
        # One expression, so that no part of `where` can drop a row before it is checked.
        connection.execute(
            f"""INSERT INTO {table} SELECT {names} FROM ({relation})
                WHERE CASE WHEN {SOUND} THEN ({where}) ELSE error({literal(FAULT)}) END"""
        )
        return format.count(connection, path)
    except MISTAKES:
        raise
    except duckdb.OutOfMemoryException as error:
        raise DataError(
            f"{path}: reading it takes more than data.memory_limit; raise it ({first_line(error)})"
        ) from error
    except (duckdb.Error, *UNREADABLE) as error:
        fault = format.first_fault(connection, path, columns)
        if fault is None:
            fault = f"{path}: cannot be read ({first_line(error)}); is it damaged?"
        raise DataError(fault) from error


def _format_of(path: Path) -> Format:
    for suffix, format in FORMATS.items():
        if path.name.endswith(suffix):
            return format
    raise DataError(
        f"{path}: its name does not tell its format; it must end in one of {', '.join(FORMATS)}"
    )
