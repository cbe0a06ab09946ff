"""Answers of language models, kept on disk: what was paid for once is never asked twice."""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from memrerank.errors import JudgeError
from memrerank.storage import canonical_json

Result = TypeVar("Result")

SQL_VARIABLES = 500  # per statement; SQLite's own limit was 999 for long
LOCK_SECONDS = 60.0  # how long to wait for another process that writes
MAPPED_BYTES = 1 << 30  # of the file, read through memory

_TABLE = """CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,  -- sha256 of the canonical request
    value TEXT NOT NULL  -- the answer in JSON
) WITHOUT ROWID"""
_PUT = "INSERT OR {} INTO answers (key, value) VALUES (?, ?)"


class ResponseStore:
    """JSON values by key in a SQLite file (WAL), shared between threads and processes.

    What `write` has returned from survives the death of the process. A power cut may take the
    newest writes with it, but leaves the file whole (synchronous=NORMAL).

    Args:
        path: the file; made, with its folder, unless `readonly`.
        readonly: never write.

    Raises, from every method:
        JudgeError: the file cannot be used as a store of answers.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = Path(path)
        self.readonly = readonly
        self._local = threading.local()  # a connection for each thread, made anew after a fork

    def read(self, keys: Sequence[str]) -> dict[str, Any]:
        """The values of those keys that have one."""

        def query(connection: sqlite3.Connection) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for start in range(0, len(keys), SQL_VARIABLES):
                part = keys[start : start + SQL_VARIABLES]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT key, value FROM answers WHERE key IN ({marks})", part
                )
                found.update((key, self._load(key, value)) for key, value in rows)
            return found

        return self._use(query)

    def write(self, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Records values in one transaction; a key that has one keeps it unless `replace`."""
        statement = _PUT.format("REPLACE" if replace else "IGNORE")
        rows = [(key, canonical_json(value)) for key, value in values.items()]

        def put(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany(statement, rows)

        self._use(put)

    def rows(self, *, size: int = 10_000) -> Iterator[list[tuple[str, str]]]:
        """All keys with their values in JSON, in order of key, `size` at a time."""
        statement = "SELECT key, value FROM answers WHERE key > ? ORDER BY key LIMIT ?"
        last = ""

        def part(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            return connection.execute(statement, (last, size)).fetchall()

        while rows := self._use(part):
            yield rows
            last = rows[-1][0]

    def vacuum(self) -> None:
        """Gives the space of replaced values back, and folds the log into the file."""

        def clean(connection: sqlite3.Connection) -> None:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        self._use(clean)

    def close(self) -> None:
        """Closes this thread's connection."""
        held = self._local.__dict__.pop("connection", None)
        if held is not None and held[0] == os.getpid():
            held[1].close()

    def _load(self, key: str, value: str) -> Any:
        try:
            return json.loads(value)
        except ValueError as error:
            raise JudgeError(
                f"{self.path}: the record {key[:16]}... is no JSON ({error}); restore the file, or "
                "name another"
            ) from error

    def _use(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._translated():
            return work(self._connection())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self.close()
            raise JudgeError(
                f"{self.path}: not usable as a cache of answers ({error}); check the file, its "
                "folder and the free space, or name another"
            ) from error

    def _connection(self) -> sqlite3.Connection:
        """This thread's connection; one that a fork has copied is left alone."""
        held = self._local.__dict__.get("connection")
        if held is None or held[0] != os.getpid():
            held = self._local.connection = (os.getpid(), self._open())
        connection: sqlite3.Connection = held[1]
        return connection

    def _open(self) -> sqlite3.Connection:
        try:
            if not self.readonly:
                self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JudgeError(f"{self.path}: its folder cannot be made ({error})") from error
        uri = f"{self.path.absolute().as_uri()}?mode={'ro' if self.readonly else 'rwc'}"
        connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS)
        try:
            connection.execute(f"PRAGMA mmap_size={MAPPED_BYTES}")
            if not self.readonly:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(_TABLE)
        except sqlite3.Error:
            connection.close()
            raise
        return connection
