"""Markdown tables."""

from collections.abc import Iterable, Sequence

NOTHING = "–"  # a value that does not apply


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table whose first `words` columns are words, and the others numbers, set to the right."""
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join(_line(cells) for cells in (head, rule, *rows))


def number(value: int | None) -> str:
    """A count with commas; a dash for none."""
    return NOTHING if value is None else f"{value:,}"


def percent(share: float) -> str:
    """A share between 0 and 1 in percent."""
    return f"{share:.1%}"


def readable(name: str) -> str:
    """`queries_in_file` as `queries in file`."""
    return name.replace("_", " ")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in cells) + " |"
