"""README.md and docs/, taken apart: code blocks, what stands between backticks, command lines."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser

ROOT = Path(__file__).parent.parent
ENTRY_POINTS = ("train.py", "evaluate.py", "prepare.py")

BLOCK = re.compile(r"^(In )?`([^`\n]+)`:$|^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
OVERRIDE = re.compile(r"[a-z_]+(?:\.\w+)*=\S*|[a-z_]+@\S+=\S*")


@dataclass(frozen=True)
class Block:
    """A code block, and the file that the line before it names."""

    language: str
    text: str
    path: str | None = None
    adds: bool = False  # lines to add to the file, not the file itself


def read(document: str) -> str:
    return (ROOT / document).read_text()


def blocks(document: str) -> Iterator[Block]:
    path, adds = None, False
    for match in BLOCK.finditer(read(document)):
        if match[2]:
            path, adds = match[2], bool(match[1])
        else:
            belongs = match[3] != "bash"
            yield Block(match[3], match[4], path if belongs else None, belongs and adds)
            path = path if adds else None


def prose(document: str) -> str:
    return BLOCK.sub(lambda match: match[0] if match[2] else "", read(document))


def commands(document: str) -> list[list[str]]:
    """Every command line of a document's shell blocks, in words; comments are dropped."""
    lines = [b.text.replace("\\\n", " ") for b in blocks(document) if b.language == "bash"]
    words = [shlex.split(line, comments=True) for text in lines for line in text.splitlines()]
    return [line for line in words if line]


def entry_and_overrides(command: list[str]) -> tuple[str, list[str]] | None:
    """`train` or `evaluate`, and the overrides; None for other commands."""
    entries = [word for word in command if word in ENTRY_POINTS]
    if not entries or command[0] != "python":
        return None
    return entries[0].removesuffix(".py"), [w for w in command if OVERRIDE.fullmatch(w)]


def swept(overrides: list[str]) -> list[list[str]]:
    """The overrides with each value of a sweep on its own."""
    parsed = OverridesParser.create().parse_overrides(overrides)
    fixed = [one.input_line for one in parsed if not one.is_sweep_override()]
    jobs = [
        [*fixed, f"{one.get_key_element()}={value}"]
        for one in parsed
        if one.is_sweep_override()
        for value in one.sweep_string_iterator()
    ]
    return jobs or [fixed]
