"""Answers of language models, kept on disk: what was paid for once is never asked twice."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from memrerank.errors import JudgeError

Result = TypeVar("Result")

SQL_VARIABLES = 500  # per statement; SQLite's own limit was 999 for long
LOCK_SECONDS = 60.0  # how long to wait for another process that writes
RETRY_SECONDS = 0.01  # between tries where SQLite does not wait by itself
CACHE_KIBIBYTES = 65_536  # of the file, kept in memory

_TABLE = """CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,  -- sha256 of the canonical request
    value TEXT NOT NULL  -- the answer in JSON
) WITHOUT ROWID"""
_PUT = "INSERT OR {} INTO answers (key, value) VALUES (?, ?)"

_FOLDER = "it needs a file, in a folder, that this process may read and write"
_DAMAGED = "it is damaged, or something else: restore a copy of it, or name another file"
_ADVICE = {
    sqlite3.SQLITE_BUSY: f"another process has kept it locked for {LOCK_SECONDS:.0f} s: end that",
    sqlite3.SQLITE_CANTOPEN: _FOLDER,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: "make room on its disk",
    sqlite3.SQLITE_IOERR: "check its disk, the free space and the quota",
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_PERM: _FOLDER,
    sqlite3.SQLITE_READONLY: _FOLDER,
}


class ResponseStore:
    """JSON values by key in a SQLite file (WAL), shared between threads and processes.

    What `write` has returned from survives the death of the process. A power cut may take the
    writes of the last moments with it, but leaves the file whole (synchronous=NORMAL). All
    processes must be on one machine: network file systems lack the shared memory that WAL needs.

    Args:
        path: the file; made, with its folder, unless `readonly`.
        readonly: never write; works in a folder that cannot be written, too.

    Raises, from every method:
        JudgeError: the file cannot be used as a store of answers.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = Path(path)
        self.readonly = readonly
        self._held = _Held()

    def read(self, keys: Sequence[str]) -> dict[str, Any]:
        """The values of those keys that have one."""

        def query(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            rows: list[tuple[str, str]] = []
            for start in range(0, len(keys), SQL_VARIABLES):
                part = keys[start : start + SQL_VARIABLES]
                marks = ",".join("?" * len(part))
                rows += connection.execute(
                    f"SELECT key, value FROM answers WHERE key IN ({marks})", part
                )
            return rows

        return {key: self.load(key, value) for key, value in self._use(query)}

    def write(self, values: Mapping[str, Any], *, replace: bool = False) -> int:
        """Records values in one transaction; a key that has one keeps it unless `replace`.

        Returns:
            How many were recorded.
        """
        statement = _PUT.format("REPLACE" if replace else "IGNORE")
        rows = [(key, _dump(value)) for key, value in values.items()]

        def put(connection: sqlite3.Connection) -> int:
            before = connection.total_changes
            with connection:
                connection.executemany(statement, rows)
            return connection.total_changes - before

        return self._use(put) if rows else 0

    def rows(self, *, size: int = 10_000) -> Iterator[list[tuple[str, str]]]:
        """All keys with their values in JSON, in order of key, `size` at a time."""
        statement = "SELECT key, value FROM answers WHERE key > ? ORDER BY key LIMIT ?"
        last = ""

        def part(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            return connection.execute(statement, (last, size)).fetchall()

        while rows := self._use(part):
            yield rows
            last = rows[-1][0]

    def load(self, key: str, value: str) -> Any:
        """What a record's JSON stands for."""
        try:
            return json.loads(value)
        except (TypeError, ValueError) as error:
            raise JudgeError(
                f"{self.path}: the record {key[:16]}... is no JSON ({error}); restore a copy of "
                "the file, or name another"
            ) from error

    def vacuum(self) -> None:
        """Gives the space of replaced values back, and folds the log into the file."""

        def clean(connection: sqlite3.Connection) -> None:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        self._use(clean)

    def close(self) -> None:
        """Closes this process's connection; the next use opens another."""
        self._mine().close()

    def _mine(self) -> "_Held":
        if self._held.process != os.getpid():
            _INHERITED.append(self._held)
            self._held = _Held()
        return self._held

    def _use(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        held = self._mine()
        with held.lock:
            try:
                if held.connection is None:
                    held.connection = self._open()
                return work(held.connection)
            except sqlite3.Error as error:
                raise self._unusable(error) from error

    def _unusable(self, error: sqlite3.Error) -> JudgeError:
        advice = _ADVICE.get(_code(error), "check the file, or name another")
        return JudgeError(f"{self.path}: not usable as a cache of answers ({error}); {advice}")

    def _open(self) -> sqlite3.Connection:
        if self.path.is_dir():
            raise JudgeError(f"{self.path}: is a folder; name a file for the answers")
        if self.readonly:
            return self._open_readonly()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JudgeError(f"{self.path}: its folder cannot be made ({error})") from error
        with self._connecting("mode=rwc") as connection:
            self._check_tables(connection)  # before anything of another's file is changed
            _set_log(connection)
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_TABLE)
        return connection

    def _open_readonly(self) -> sqlite3.Connection:
        try:
            with self._connecting("mode=ro") as connection:
                self._check_tables(connection)
        except sqlite3.OperationalError as error:
            # WAL needs a second file beside the first. Where that cannot be made nobody writes, and
            # the file can be read as it is, unless there is a log of what is not in it yet.
            log = self.path.with_name(f"{self.path.name}-wal")
            if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or (
                log.exists() and log.stat().st_size
            ):
                raise
            with self._connecting("mode=ro&immutable=1") as connection:
                self._check_tables(connection)
        return connection

    @contextmanager
    def _connecting(self, options: str) -> Iterator[sqlite3.Connection]:
        """A connection, closed if the block fails."""
        uri = f"{self.path.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA cache_size=-{CACHE_KIBIBYTES}")
            yield connection
        except BaseException:
            connection.close()
            raise

    def _check_tables(self, connection: sqlite3.Connection) -> None:
        """Raises JudgeError for a file of something else."""
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        columns = [row[1] for row in connection.execute("PRAGMA table_info(answers)")]
        if columns == ["key", "value"] or not (tables or self.readonly):
            return
        held = ", ".join(sorted(name for (name,) in tables)[:5]) or "nothing"
        raise JudgeError(
            f"{self.path}: not usable as a cache of answers (it holds {held}); name another file"
        )


class _Held:
    """A process's connection, and the lock by which its threads take turns."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.RLock()
        self.connection: sqlite3.Connection | None = None

    def close(self) -> None:
        with self.lock:
            if self.connection is not None:
                self.connection.close()
                self.connection = None


# Connections that a fork has copied: the child must neither use nor close them.
_INHERITED: list[_Held] = []


def _set_log(connection: sqlite3.Connection) -> None:
    """Sets WAL; waits, as SQLite here does not, for another process that does so to a new file."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for errors of the Python module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _dump(value: Any) -> str:
    """Canonical JSON in ASCII: half a surrogate pair, which broken texts hold, has no UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
