"""Rules that are broken, told in one message."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from memrerank.data.readers.faults import shown
from memrerank.errors import DataError


@dataclass(frozen=True, slots=True)
class FaultyRow:
    """A row that breaks a rule."""

    row: int  # from 1, in the file's order, the header not counted
    found: str | None  # the value at fault; None: there is none


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a file breaks.

    count: how many rows break it; 0 where the file breaks it as a whole.
    rows: the first of them, in the file's order.
    """

    file: Path
    rule: str
    count: int = 0
    rows: tuple[FaultyRow, ...] = ()


class BrokenTableError(DataError):
    """A file that cannot be read as its table at all."""

    def __init__(self, path: Path, faults: Sequence[str]) -> None:
        super().__init__("; ".join(f"{path}: {fault}" for fault in faults))
        self.violations = tuple(Violation(path, fault) for fault in faults)


def report(violations: Sequence[Violation], max_faults: int) -> str:
    """The message: every rule with its file and its count, and at most `max_faults` rows.

    Rules take turns in showing a row, so that one with many does not hide the others'.
    """
    room = share([len(one.rows) for one in violations], max_faults)
    lines = [f"the tables break {_number(len(violations), 'rule')}; correct them and run again"]
    if total := sum(one.count for one in violations):
        lines[0] += (
            f" ({_number(total, 'row')} at fault, counted once per rule; {sum(room):,} shown, "
            "data.max_faults= sets how many)"
        )
    pairs = zip(violations, room, strict=True)
    for file, members in groupby(pairs, key=lambda pair: pair[0].file):
        lines.append(str(file))
        for violation, shown_rows in members:
            lines += _describe(violation, shown_rows)
    whole = {one.file.name: None for one in violations if not one.count}  # in order, once each
    if whole:
        lines.append(f"Rules that need {' or '.join(whole)} could not be checked.")
    return "\n".join(lines)


def share(sizes: Sequence[int], limit: int) -> list[int]:
    """How many of each group to take so that all get their turn and `limit` is kept."""
    taken = [0] * len(sizes)
    while limit > 0 and taken != list(sizes):
        for number, size in enumerate(sizes):
            if taken[number] < size and limit > 0:
                taken[number] += 1
                limit -= 1
    return taken


def _describe(violation: Violation, room: int) -> list[str]:
    if not violation.count:
        return [f"  {violation.rule}"]
    lines = [f"  {_number(violation.count, 'row')}: {violation.rule}"]
    for one in violation.rows[:room]:
        found = "" if one.found is None else f": {shown(' '.join(one.found.split()))}"
        lines.append(f"    row {one.row}{found}")
    if left := violation.count - room:
        lines.append(f"    and {left:,} more" if room else f"    {left:,} not shown")
    return lines


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
