"""A file of any format as columns of text, in SQL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from memrerank.data.engine import literal
from memrerank.data.readers.delimited import read_header
from memrerank.data.readers.faults import sql_path
from memrerank.data.readers.kinds import quoted
from memrerank.data.readers.parquet import INTEGERS, read_schema
from memrerank.data.table.columns import TIMESTAMP, Table
from memrerank.data.table.report import BrokenTableError

TEXT_TYPES = {"VARCHAR", *INTEGERS}  # of Parquet columns; numbers become their digits
JSON_TEXT_TYPES = ("VARCHAR", "BIGINT", "UBIGINT")  # the same, as `json_type` calls them


@dataclass(frozen=True, slots=True)
class Cells:
    """How to read a file.

    relation: what to select from, in the file's order.
    values: SQL for the text of each column that the file has.
    wrong: SQL for each column that may hold what is no text: true where it does.
    """

    relation: str
    values: Mapping[str, str]
    wrong: Mapping[str, str] = field(default_factory=dict)


Reader = Callable[[duckdb.DuckDBPyConnection, Path, Table], Cells]


def csv_cells(connection: duckdb.DuckDBPyConnection, path: Path, table: Table) -> Cells:
    """A CSV file with a header.

    Raises:
        BrokenTableError: a column is missing, or is there twice.
        DataError: the header cannot be read.
    """
    header = read_header(path)
    _require(path, table, header)
    twice = [name for name in table.columns if header.count(name) > 1]
    if twice:
        raise BrokenTableError(path, [f"two columns are called {name}" for name in twice])
    places = [f"c{number}" for number in range(len(header))]
    types = ", ".join(f"{literal(place)}: 'VARCHAR'" for place in places)
    relation = f"""read_csv({sql_path(path)}, auto_detect = false, header = true, delim = ',',
        quote = '"', escape = '"', hive_partitioning = false, columns = {{{types}}})"""
    found = dict(zip(header, places, strict=True))
    return Cells(relation, {name: found[name] for name in table.columns if name in found})


def jsonl_cells(connection: duckdb.DuckDBPyConnection, path: Path, table: Table) -> Cells:
    """A file of one JSON object a line. A column is there when any object has its key.

    Raises:
        BrokenTableError: a column is missing, or there is no object.
        duckdb.Error: the file cannot be read.
    """
    keys = connection.execute(
        f"""SELECT DISTINCT unnest(json_keys(json)) AS key
            FROM read_ndjson_objects({sql_path(path)}, hive_partitioning = false) ORDER BY key"""
    ).fetchall()
    found = [key for (key,) in keys]
    if not found:
        raise BrokenTableError(path, ["no line holds a JSON object with a key"])
    _require(path, table, found)
    names = [name for name in table.columns if name in found]
    types = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
    relation = f"""read_json({sql_path(path)}, format = 'newline_delimited',
        hive_partitioning = false, columns = {{{types}}})"""
    wrong = {
        name: f"json_type({quoted(name)}) NOT IN {JSON_TEXT_TYPES}"
        for name in names
        if name != TIMESTAMP  # whatever is no whole number breaks a rule of its own
    }
    return Cells(relation, {name: f"{quoted(name)} ->> '$'" for name in names}, wrong)


def parquet_cells(connection: duckdb.DuckDBPyConnection, path: Path, table: Table) -> Cells:
    """A Parquet file.

    Raises:
        BrokenTableError: a column is missing, or of a type that is neither text nor integer.
        DataError: the file is not Parquet.
    """
    schema = read_schema(connection, path)
    _require(path, table, list(schema))
    names = [name for name in table.columns if name in schema]
    wrong = [
        f"the column {name} is of type {schema[name]}; write it as {_wanted(name)}"
        for name in names
        if schema[name] not in TEXT_TYPES
    ]
    if wrong:
        raise BrokenTableError(path, wrong)
    relation = f"read_parquet({sql_path(path)}, hive_partitioning = false)"
    return Cells(relation, {name: f"CAST({quoted(name)} AS VARCHAR)" for name in names})


def _wanted(name: str) -> str:
    return "UTC milliseconds, 64-bit integers" if name == TIMESTAMP else "strings or integers"


def _require(path: Path, table: Table, found: list[str]) -> None:
    told = ", ".join(found) or "none"
    missing = [name for name in table.required if name not in found]
    if missing:
        raise BrokenTableError(
            path, [f"the column {name} is missing (columns found: {told})" for name in missing]
        )


READERS: Mapping[str, Reader] = {
    ".parquet": parquet_cells,
    ".csv": csv_cells,
    ".csv.gz": csv_cells,
    ".jsonl": jsonl_cells,
    ".jsonl.gz": jsonl_cells,
}
