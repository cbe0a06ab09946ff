"""Steps: files made once, under names that say what they were made from.

A step's file is named after the hash of everything that it depends on, so a step is skipped when
its inputs are unchanged, and its result never has to be invalidated. It is written under a
temporary name and renamed; the record beside it is written last, and only a file with a sound
record counts as made. A killed run therefore leaves nothing that a later one could mistake.
"""

import glob
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from memrerank.data.engine import EngineSettings, connect
from memrerank.errors import DataError
from memrerank.storage import FileHashes, atomic_path, fingerprint, write_json

log = logging.getLogger(__name__)

STALE_SECONDS = 86_400  # a temporary file this old belongs to no running step
FORMAT = 2  # raise it when the steps of old shall not be read any more

Build = Callable[[duckdb.DuckDBPyConnection, Path], Mapping[str, int] | None]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A finished step."""

    path: Path
    sha256: str  # of the file
    counts: dict[str, int]  # what was counted while it was made
    made: bool  # by this run; False: it was there


class Steps:
    """Runs steps and remembers what they made, in order.

    Args:
        folder: where the files go.
        engine: the limits of the connection that each step gets.
    """

    def __init__(self, folder: Path, engine: EngineSettings) -> None:
        self.folder = folder
        self.engine = engine
        self.hashes = FileHashes(folder / "hashes.json")
        self.done: dict[str, Artifact] = {}  # by name
        self.sources: dict[str, str] = {}  # the sha256 of what was read, by path

    def run(
        self, name: str, inputs: Mapping[str, Any], build: Build, suffix: str = ".parquet"
    ) -> Artifact:
        """The artifact of a step, made now unless it is there.

        Args:
            name: of the step; letters, digits, `_`, `-` and `.`.
            inputs: all that the result depends on, JSON-serialisable; of files their sha256.
            build: writes the file to the path that it is given and returns what it counted. Its
                connection is a fresh database.
        """
        key = fingerprint({"step": name, "format": FORMAT, "inputs": dict(inputs)})
        path = self.folder / f"{name}-{key[:16]}{suffix}"
        artifact = self._load(path)
        if artifact is None:
            log.info("data step %s ...", name)
            started = time.perf_counter()
            artifact = self._make(path, inputs, build)
            log.info(
                "data step %s: %.1f s %s", name, time.perf_counter() - started, artifact.counts
            )
        self.done[name] = artifact
        return artifact

    def source(self, path: Path) -> str:
        """The sha256 of a file that steps read; read anew only when size or time have changed.

        Raises:
            DataError: it is no file, or may not be read.
        """
        if not path.is_file():
            raise DataError(f"{path} is no file, or a link to none; put the file in its place")
        if not os.access(path, os.R_OK):
            raise DataError(f"{path} may not be read; change its permissions")
        self.sources[str(path)] = self.hashes.sha256(path)
        return self.sources[str(path)]

    def _make(self, path: Path, inputs: Mapping[str, Any], build: Build) -> Artifact:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep(path)
        with atomic_path(path) as temporary, connect(self.engine, self.folder) as connection:
            counts = dict(build(connection, temporary) or {})
        sha256 = self.hashes.sha256(path)
        write_json(_record(path), {"sha256": sha256, "counts": counts, "inputs": dict(inputs)})
        return Artifact(path, sha256, counts, made=True)

    def _sweep(self, path: Path) -> None:
        """Removes what killed runs left of this step; a younger file may be a running one's."""
        for left in self.folder.glob(f".{glob.escape(path.name)}.*.tmp"):
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                left.unlink(missing_ok=True)

    def _load(self, path: Path) -> Artifact | None:
        """The artifact on disk; None where there is none or it is damaged (which is logged)."""
        if not path.is_file() or not _record(path).is_file():
            return None
        try:
            record = json.loads(_record(path).read_text())
            sha256, counts = record["sha256"], record["counts"]
        except (ValueError, KeyError, TypeError) as error:
            log.warning("the record of %s is damaged (%r); the step is done again", path, error)
            return None
        if self.hashes.sha256(path) != sha256:
            log.warning("%s has changed since it was made; the step is done again", path)
            return None
        return Artifact(path, sha256, counts, made=False)


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".json")
