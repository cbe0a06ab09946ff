"""Product vectors in shards: NumPy files that are memory-mapped, each beside a record of its hash.

A shard is the unit of embedding and of resuming. It is written under a temporary name and renamed,
and its record is written last, so a killed run leaves only shards that are whole. A shard whose
bytes are not those of its record is reported and counts as missing.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memrerank.storage import atomic_path, file_sha256, write_json

log = logging.getLogger(__name__)

FLOAT_BYTES = 4  # of a float32, which searching turns vectors into


class VectorStore:
    """Vectors of one width, in the order of the corpus; a view of shards that may be on disk.

    Args:
        shards: arrays [rows, dims] of one dtype (float16 or float32), at least one.
    """

    def __init__(self, shards: Sequence[np.ndarray]) -> None:
        self.shards = tuple(shards)
        self.rows = sum(len(shard) for shard in self.shards)
        self.dims = int(self.shards[0].shape[1])

    def blocks(self, max_bytes: int) -> Iterator[tuple[int, np.ndarray]]:
        """All vectors as pairs of the first row's number and an array [b, dims], without a copy.

        Args:
            max_bytes: the most that a block may take as float32, whatever its dtype here; a block
                has at least one row, and never reaches from one shard into the next.
        """
        step = max(1, max_bytes // (FLOAT_BYTES * self.dims))
        first = 0
        for shard in self.shards:
            for start in range(0, len(shard), step):
                yield first + start, shard[start : start + step]
            first += len(shard)

    def read(self) -> np.ndarray:
        """All vectors, float32 [rows, dims], in memory."""
        vectors = np.empty((self.rows, self.dims), dtype=np.float32)
        first = 0
        for shard in self.shards:
            vectors[first : first + len(shard)] = shard
            first += len(shard)
        return vectors


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """The shards of one corpus under one recipe, by number."""

    folder: Path

    def path(self, number: int) -> Path:
        """The file of a shard."""
        return self.folder / f"shard-{number:05}.npy"

    def write(self, number: int, vectors: np.ndarray) -> None:
        """Keeps a shard [rows, dims], then the record that makes it count."""
        path = self.path(number)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.save(file, vectors, allow_pickle=False)
        write_json(_record(path), {"sha256": file_sha256(path)})

    def load(self, number: int, rows: int, dtype: str) -> np.ndarray | None:
        """A shard [rows, dims], memory-mapped; None where it is missing or damaged.

        Its bytes are read and compared with the record; damage is logged.
        """
        path = self.path(number)
        if not path.is_file() or not _record(path).is_file():
            return None
        try:
            if json.loads(_record(path).read_text())["sha256"] == file_sha256(path):
                vectors: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
                if vectors.ndim == 2 and len(vectors) == rows and vectors.dtype == dtype:
                    return vectors
                problem = f"it holds {vectors.dtype} {vectors.shape}, not {dtype} of {rows} rows"
            else:
                problem = "its bytes have changed since it was made"
        except (ValueError, KeyError, TypeError, EOFError, OSError) as error:
            problem = repr(error)
        log.warning("the vectors %s are damaged (%s) and are made again", path, problem)
        return None


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".json")
