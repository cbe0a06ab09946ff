"""One step a table: its file as Parquet, one row a row, so that the rules know every row's number.

The copy has all columns of the table as VARCHAR, blank values as NULL, and `wrong`, a list of the
values that are no text. DuckDB keeps the order of the file when it copies.
"""

from collections.abc import Mapping
from pathlib import Path

import duckdb

from memrerank.data.engine import copy, literal
from memrerank.data.readers.faults import UNREADABLE, first_line
from memrerank.data.readers.kinds import Columns, quoted
from memrerank.data.readers.rows import FORMATS, MISTAKES
from memrerank.data.steps import Artifact, Steps
from memrerank.data.table.cells import READERS, Cells
from memrerank.data.table.columns import TABLES, Table
from memrerank.data.table.report import BrokenTableError
from memrerank.errors import ConfigError, DataError

NOT_BLANK = r"[^\s\p{Z}]"  # a character that is not white space


def load_table(steps: Steps, name: str, path: Path) -> Artifact:
    """The copy of a table.

    Raises:
        BrokenTableError: the file is not there, cannot be read, lacks a column or has no rows.
        ConfigError: its name does not tell its format.
    """
    suffix = suffix_of(name, path)
    if not path.is_file():
        raise BrokenTableError(path, ["there is no such file"])

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        _copy_table(connection, path, suffix, TABLES[name], out)
        ((rows,),) = connection.execute(
            "SELECT count(*) FROM read_parquet(?)", [str(out)]
        ).fetchall()
        if not rows:
            raise BrokenTableError(path, ["the table has no rows"])
        return {f"{name}_in_file": rows}

    return steps.run(f"table-{name}", {"file": steps.source(path), "format": suffix}, build)


def suffix_of(name: str, path: Path) -> str:
    """The part of a file's name that tells its format.

    Raises:
        ConfigError: no part does.
    """
    for suffix in READERS:
        if path.name.endswith(suffix):
            return suffix
    raise ConfigError(
        f"data.{name}={path.name}: the name does not tell the format; it must end in "
        f"{', '.join(READERS)}"
    )


def _copy_table(
    connection: duckdb.DuckDBPyConnection, path: Path, suffix: str, table: Table, out: Path
) -> None:
    """Copies a file; whatever is wrong with it as a whole becomes a BrokenTableError."""
    try:
        cells = READERS[suffix](connection, path, table)
        copy(connection, _select(cells, table), out)
    except duckdb.OutOfMemoryException as error:
        raise DataError(
            f"{path}: reading it takes more than data.memory_limit; raise it ({first_line(error)})"
        ) from error
    except MISTAKES:
        raise
    except (duckdb.Error, *UNREADABLE) as error:
        fault = FORMATS[suffix].first_fault(connection, path, Columns({}))
        raise BrokenTableError(path, [_told(path, fault or first_line(error))]) from error
    except BrokenTableError:
        raise
    except DataError as error:
        raise BrokenTableError(path, [_told(path, str(error))]) from error


def _told(path: Path, fault: str) -> str:
    """A fault that starts with its file, under a heading that says the file."""
    place = fault.removeprefix(f"{path}:").strip()
    number, colon, rest = place.partition(": ")
    return f"line {number}: {rest}" if colon and number.isdigit() else place


def _select(cells: Cells, table: Table) -> str:
    defaults = {
        name: "NULL" if value is None else literal(value) for name, value in table.optional.items()
    }
    texts = {name: cells.values.get(name) or defaults[name] for name in table.columns}
    values = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in texts.items())
    wrong = ", ".join(
        f"CASE WHEN {sql} THEN {literal(name + ' is ')} || left({cells.values[name]}, 100) END"
        for name, sql in cells.wrong.items()
    )
    kept = ", ".join(
        f"CASE WHEN regexp_matches({quoted(name)}, {literal(NOT_BLANK)}) "
        f"THEN {quoted(name)} END AS {quoted(name)}"
        for name in table.columns
    )
    return f"""
        SELECT {kept}, list_filter(wrong, lambda one: one IS NOT NULL) AS wrong
        FROM (SELECT {values}, CAST([{wrong}] AS VARCHAR[]) AS wrong FROM {cells.relation})
    """
