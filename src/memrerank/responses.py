"""Answers of a language model, kept on disk: what was paid for once is never asked twice."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from memrerank.errors import JudgeError
from memrerank.storage import canonical_json

SQL_VARIABLES = 500  # per statement; SQLite's own limit was 999 for long
LOCK_SECONDS = 60.0  # how long to wait for another process that writes

_TABLE = """CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,  -- sha256 of the canonical request
    value TEXT NOT NULL  -- the answer in JSON
) WITHOUT ROWID"""
_PUT = "INSERT OR {} INTO answers (key, value) VALUES (?, ?)"


class ResponseStore:
    """JSON values by key in a SQLite file (WAL), shared between threads and processes.

    Args:
        path: the file; made, with its folder, unless `readonly`.
        readonly: never write.

    Raises, from every method:
        JudgeError: the file cannot be used as a store of answers.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = Path(path)
        self.readonly = readonly

    def read(self, keys: Sequence[str]) -> dict[str, Any]:
        """The values of those keys that have one."""
        found: dict[str, Any] = {}
        with self._connection() as connection:
            for start in range(0, len(keys), SQL_VARIABLES):
                part = keys[start : start + SQL_VARIABLES]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT key, value FROM answers WHERE key IN ({marks})", part
                )
                found |= {key: json.loads(value) for key, value in rows}
        return found

    def write(self, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Records values in one transaction; a key that has one keeps it unless `replace`."""
        statement = _PUT.format("REPLACE" if replace else "IGNORE")
        with self._connection() as connection, connection:
            rows = ((key, canonical_json(value)) for key, value in values.items())
            connection.executemany(statement, rows)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for each use: right in any thread, and after a fork."""
        if not self.readonly:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        uri = f"{self.path.absolute().as_uri()}?mode={'ro' if self.readonly else 'rwc'}"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS)) as connection:
                if not self.readonly:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute(_TABLE)
                yield connection
        except sqlite3.DatabaseError as error:
            raise JudgeError(
                f"{self.path}: not usable as a cache of answers ({error}); check it or name another"
            ) from error
