"""BM25 indexes on disk, in bm25s's own layout: arrays that are memory-mapped, vocabulary as JSON.

A folder gets its name when all its files are written, so a killed run leaves nothing that could be
taken for an index. A record holds the sha256 of each file; damage is noticed before searching.
"""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import bm25s
from filelock import FileLock

from memrerank.storage import file_sha256, write_json

log = logging.getLogger(__name__)

RECORD = "sha256.json"


def kept_index(folder: Path, build: Callable[[], bm25s.BM25]) -> bm25s.BM25:
    """The index in a folder, memory-mapped; built and kept there if it is missing or damaged.

    Runs that want the same index at once wait for the one that builds it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not _is_whole(folder):
            _keep(folder, build())
    return bm25s.BM25.load(folder, mmap=True, allow_pickle=False)


def _is_whole(folder: Path) -> bool:
    """Whether the files are those of the record; damage is logged."""
    if not folder.exists():
        return False
    try:
        recorded, found = json.loads((folder / RECORD).read_text()), _hashes(folder)
        if recorded == found:
            return True
        names = recorded.keys() | found.keys()
        problem = "changed since: " + ", ".join(
            sorted(name for name in names if recorded.get(name) != found.get(name))
        )
    except (OSError, ValueError, AttributeError) as error:
        problem = repr(error)
    log.warning("the BM25 index %s is damaged (%s) and is made again", folder, problem)
    return False


def _keep(folder: Path, index: bm25s.BM25) -> None:
    temporary = folder.with_name(f".{folder.name}.tmp")  # one writer at a time: the lock is held
    for old in (temporary, folder):  # left by a killed run, or damaged
        if old.exists():
            shutil.rmtree(old)
    temporary.mkdir()
    index.save(temporary, allow_pickle=False, show_progress=False)
    write_json(temporary / RECORD, _hashes(temporary))
    temporary.rename(folder)


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.iterdir() if path.name != RECORD)
    return {path.name: file_sha256(path) for path in files}
