"""What is common to naming a fault in a file."""

import glob
import gzip
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from memrerank.data.engine import literal

SOUND = "is_sound"  # the column of a format's relation that says whether the row is
UNREADABLE = (EOFError, OSError, zlib.error)  # what reading a damaged file raises


def first_line(error: Exception) -> str:
    """The first line of an error's message; DuckDB's others are advice on its own settings."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def damaged(path: Path, number: int, error: Exception) -> str:
    """What to say of a file that cannot be read beyond a line."""
    return (
        f"{path}: cannot be read past line {number} ({error}); "
        "the file is damaged or was not copied whole: fetch it again"
    )


def open_binary(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked if its name ends in .gz."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def sql_path(path: Path) -> str:
    """A path as a SQL literal in which nothing is a wildcard."""
    return literal(glob.escape(str(path)))


def shown(value: str) -> str:
    """A value cut to what a message has room for."""
    return value if len(value) <= 60 else value[:60] + "..."
