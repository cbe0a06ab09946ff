"""How the tests of the readers call them."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from memrerank.data.readers import Kind, read_rows
from memrerank.errors import DataError

PURCHASES = {"user": Kind.text, "number": Kind.integer, "time": Kind.milliseconds}
NOON = 1_588_687_728_923  # 5 May 2020, in milliseconds


def rows_of(*paths: Path, fields: dict[str, Kind] = PURCHASES, **options: Any) -> list[tuple]:
    """The rows that are read from files into a table, in order."""
    return counted_rows_of(*paths, fields=fields, **options)[1]


def counted_rows_of(
    *paths: Path, fields: dict[str, Kind] = PURCHASES, **options: Any
) -> tuple[int, list[tuple]]:
    """How many rows the files have, and those in the table."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TEMP TABLE known AS SELECT 'ann' AS name")
        number = read_rows(connection, "rows", paths, fields, **options)
        return number, connection.execute("SELECT * FROM rows").fetchall()


def fault_of(path: Path, fields: dict[str, Kind] = PURCHASES, **options: Any) -> str:
    """The message of the DataError that reading a file must end in, without its path."""
    with pytest.raises(DataError) as caught:
        rows_of(path, fields=fields, **options)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message  # DuckDB's advice is no use to ours
    return message.removeprefix(str(path))
