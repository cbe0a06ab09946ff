"""CSV as RFC 4180 has it, in UTF-8: a header, commas, quotes doubled inside quotes."""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import duckdb

from memrerank.data.engine import literal
from memrerank.data.readers.faults import (
    SOUND,
    UNREADABLE,
    damaged,
    open_binary,
    shown,
    sql_path,
)
from memrerank.data.readers.kinds import Columns, Kind, in_range, quoted, range_fault
from memrerank.errors import DataError

INTEGER = re.compile("0|-?[1-9][0-9]{0,30}", re.ASCII)
NO_VALUE = "\ufffe"  # which no text has: Unicode keeps it free
NOT_UTF8 = "invalid UTF-8; write the file in UTF-8"
SEPARATOR_NAMES = {"\t": "tabs", ";": "semicolons", "|": "vertical bars"}  # that are no commas
OTHER_SEPARATORS = re.compile(r"[\t;|]")
LONGEST = 2_000_000  # bytes of a row that DuckDB takes


def select(connection: duckdb.DuckDBPyConnection, path: Path, columns: Columns) -> str:
    """SQL for the columns of a file and whether each row is sound.

    Raises:
        DataError: the file has no header, or it lacks a column.
    """
    header = read_header(path)
    _require(path, header, columns)
    place = {name: f"c{number}" for number, name in enumerate(header)}
    values = [
        (
            f"nullif({place[name]}, '')"
            if kind is Kind.text
            else f"TRY_CAST({place[name]} AS BIGINT)"
        )
        + f" AS {quoted(name)}"
        for name, kind in columns.fields.items()
    ]
    texts = [
        (f"to_json(nullif({place[name]}, ''))" if name in place else "NULL") + f" AS {quoted(name)}"
        for name in columns.optional
    ]
    checks = [
        _check(place[name], kind, name in columns.nullable) for name, kind in columns.fields.items()
    ]
    return f"""
        SELECT {", ".join((*values, *texts))}, {" AND ".join(checks) or "true"} AS {SOUND}
        FROM {_scan(path, len(header))}
    """


def _scan(path: Path, width: int) -> str:
    """SQL that reads all columns as text, under the names c0, c1, ...

    With an empty `nullstr`, DuckDB would let pass empty values beyond the header's.
    """
    columns = ", ".join(f"{literal(f'c{number}')}: 'VARCHAR'" for number in range(width))
    return f"""
        read_csv({sql_path(path)}, auto_detect = false, header = true, delim = ',', quote = '"',
                 escape = '"', nullstr = '{NO_VALUE}', hive_partitioning = false,
                 columns = {{{columns}}})
    """


def _check(value: str, kind: Kind, nullable: bool) -> str:
    if kind is Kind.text:
        return "true" if nullable else f"coalesce({value} <> '', false)"
    number = f"TRY_CAST({value} AS BIGINT)"
    # DuckDB also casts '1e3', ' 7 ' and '2.6'; only what it would write itself is an integer.
    check = f"coalesce(CAST({number} AS VARCHAR) = {value}, false) AND {in_range(number, kind)}"
    return f"({value} = '' OR ({check}))" if nullable else f"({check})"


def count(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """The number of rows of a file."""
    scan = _scan(path, len(read_header(path)))
    ((number,),) = connection.execute(f"SELECT count(*) FROM {scan}").fetchall()
    return int(number)


def read_header(path: Path) -> list[str]:
    """The names of the columns, in order.

    Raises:
        DataError: there is no header, or it cannot be read.
    """
    try:
        with _open(path) as file:
            header = next(csv.reader(file, strict=True), None)
            "".join(header or ()).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{path}:1: {NOT_UTF8}") from error
    except csv.Error as error:
        raise DataError(f"{path}:1: malformed CSV ({error})") from error
    if header is None:
        raise DataError(f"{path} is empty: it has no header; fetch or write it again")
    if not any(header):
        raise DataError(f"{path}:1: the first line must be the header; it is blank")
    if len(header) == 1 and (found := OTHER_SEPARATORS.search(header[0])):
        name = SEPARATOR_NAMES[found.group()]
        raise DataError(
            f"{path}:1: the columns are separated by {name}; separate them by commas "
            f"(the header is {shown(header[0])})"
        )
    return header


def _require(path: Path, header: list[str], columns: Columns) -> None:
    told = shown(",".join(header))
    missing = [name for name in columns.fields if name not in header]
    if missing:
        word = "column" if len(missing) == 1 else "columns"
        raise DataError(
            f"{path}:1: the file lacks the {word} {', '.join(missing)}; its header is {told}"
        )
    for name in (*columns.fields, *columns.optional):
        if header.count(name) > 1:
            raise DataError(f"{path}:1: two columns are called {name}; its header is {told}")


def first_fault(connection: duckdb.DuckDBPyConnection, path: Path, columns: Columns) -> str | None:
    """`path:line: what is wrong` for the first row at fault, by the line where it starts."""
    number = 1
    try:
        with _open(path) as file, _long_values():
            lines = _Lines(file)
            rows = csv.reader(lines, strict=True)
            header: list[str] = []
            ending = ""  # of the header
            while True:
                number = rows.line_num + 1
                if (row := next(rows, None)) is None:
                    return None
                header, ending = header or row, ending or _ending(lines.last)
                fault = _row_fault(row, header, columns)
                fault = fault or _ending_fault(_ending(lines.last), ending)
                if fault:
                    return f"{path}:{number}: {fault}"
    except csv.Error as error:
        return f"{path}:{number}: malformed CSV ({error}); is a quote missing or not doubled?"
    except UNREADABLE as error:
        return damaged(path, number - 1, error)


def numbered_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a sound file by column, each with the line where it starts."""
    with _open(path) as file, _long_values():
        rows = csv.reader(file, strict=True)
        header = next(rows)
        while True:
            number = rows.line_num + 1
            if (row := next(rows, None)) is None:
                return
            yield number, dict(zip(header, row, strict=True))


def _row_fault(row: list[str], header: list[str], columns: Columns) -> str | None:
    """What is wrong with a row, or None; the header itself is a row too."""
    try:
        size = len("".join(row).encode())
    except UnicodeEncodeError:
        return NOT_UTF8
    if size > LONGEST:
        return f"malformed CSV (a row of {size} bytes); is a quote missing or not doubled?"
    if not row or row is header:
        return None
    if len(row) != len(header):
        return f"{len(row)} values where the header has {len(header)}"
    for name, kind in columns.fields.items():
        if fault := _value_fault(name, row[header.index(name)], kind, name in columns.nullable):
            return fault
    return None


def _ending_fault(ending: str, first: str) -> str | None:
    if ending in ("", first):
        return None
    return (
        f"the row ends with {ending!r} and the header with {first!r}; "
        "write the file with one line ending throughout"
    )


def _value_fault(name: str, value: str, kind: Kind, nullable: bool) -> str | None:
    if not value:
        return None if nullable else f"the column {name} has no value"
    if kind is Kind.text:
        return None
    if not INTEGER.fullmatch(value):
        return f"the field {name!r} must be {kind.words}, found {shown(value)}"
    return range_fault(name, int(value), kind)


def _ending(line: str) -> str:
    """How a line ends: with "\\n", "\\r\\n", "\\r" or, the last of a file, with nothing."""
    return line[len(line.rstrip("\r\n")) :]


class _Lines(Iterator[str]):
    """The lines of a file; `last` is the one that was read last."""

    def __init__(self, file: TextIO) -> None:
        self.last = ""
        self._file = file

    def __next__(self) -> str:
        self.last = next(self._file)
        return self.last


def _open(path: Path) -> TextIO:
    """The text of a file; bytes that are not UTF-8 become what cannot be encoded again."""
    return io.TextIOWrapper(
        open_binary(path), encoding="utf-8-sig", errors="surrogateescape", newline=""
    )


@contextmanager
def _long_values() -> Iterator[None]:
    """Lets Python's reader take values as long as DuckDB's."""
    before = csv.field_size_limit(LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)
