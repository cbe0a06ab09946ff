"""Files that other runs rely on: written whole or not at all, and named after what made them."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(value: Any) -> str:
    """The sha256 (hex, 64 characters) of a JSON-serialisable value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """The sha256 (hex) of a file's bytes, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path` and renames it there when the block succeeds.

    A killed run leaves at most a `.tmp` file behind, never a half-written `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes indented JSON atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


class FileHashes:
    """The sha256 of files, computed again only when a file's size or time has changed.

    Args:
        path: a JSON file that keeps what was computed, for later runs. Losing it costs time alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def sha256(self, file: Path) -> str:
        """The sha256 (hex) of a file's bytes.

        Raises:
            OSError: the file cannot be read.
        """
        name, stat = str(file.resolve()), file.stat()
        identity = [stat.st_size, stat.st_mtime_ns]
        known = self._load()
        if known.get(name, [])[:2] != identity:
            known[name] = [*identity, file_sha256(file)]
            write_json(self.path, known)
        return str(known[name][2])

    def _load(self) -> dict[str, list[Any]]:
        try:
            known = json.loads(self.path.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}
