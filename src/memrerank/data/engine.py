"""DuckDB as it is used here: bounded memory, a spill folder, results as Parquet files."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import duckdb

from memrerank.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How much of the machine the joins may take."""

    memory_limit: str = "4GB"  # of DuckDB's own memory; beyond it, it spills to disk
    spill_dir: Path | None = None  # None: beside the files that are made
    threads: int | None = None  # None: one per core


@contextmanager
def connect(settings: EngineSettings, folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty in-memory database within the limits; `folder` is where it may spill to.

    Raises:
        ConfigError: a limit is not one that DuckDB takes.
    """
    with duckdb.connect() as connection:
        try:
            connection.execute(f"SET memory_limit = {literal(settings.memory_limit)}")
        except duckdb.Error as error:
            raise ConfigError(
                f"data.memory_limit={settings.memory_limit!r} will not do; give a size such as 4GB"
            ) from error
        if settings.threads is not None:
            if settings.threads < 1:
                raise ConfigError(f"data.threads={settings.threads} will not do; use 1 or more")
            connection.execute(f"SET threads = {int(settings.threads)}")
        spill = settings.spill_dir or folder / "spill"
        connection.execute(f"SET temp_directory = {literal(str(spill))}")
        bar = sys.stderr.isatty()  # appears after two seconds of one query
        connection.execute(f"SET enable_progress_bar = {str(bar).lower()}")
        yield connection


def literal(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def view(connection: duckdb.DuckDBPyConnection, name: str, paths: Sequence[Path]) -> None:
    """Makes Parquet files of one schema readable under a table name."""
    listed = ", ".join(literal(str(path)) for path in paths)
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM read_parquet([{listed}])"
    )


def copy(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    """Writes a query's result to a Parquet file; equal rows in equal order give equal bytes."""
    connection.execute(f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)")


def read_sql(name: str) -> str:
    """The text of `sql/{name}.sql`."""
    return (files("memrerank.data") / "sql" / f"{name}.sql").read_text().strip().rstrip(";")
