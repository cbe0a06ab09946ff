"""What a column may hold: the rule in SQL, which checks, and in Python, which explains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

# As milliseconds, what lies between SECONDS and TOO_LATE is April 1970 to the year 5138; as
# seconds, what lies within SECONDS is the years 1985 to 2286.
SECONDS = (500_000_000, 10_000_000_000)  # from, to before: taken for seconds
TOO_LATE = 100_000_000_000_000  # from here on: taken for microseconds or nanoseconds

LARGEST = 2**63 - 1


class Kind(StrEnum):
    """What a required column holds."""

    text = "text"
    integer = "integer"  # of 64 bits
    milliseconds = "milliseconds"  # since 1970 in UTC, an integer

    @property
    def sql_type(self) -> str:
        """The type of the column that it is read into."""
        return "VARCHAR" if self is Kind.text else "BIGINT"

    @property
    def words(self) -> str:
        """What a value must be, to be said to the user."""
        return "a string" if self is Kind.text else "an integer"


@dataclass(frozen=True, slots=True)
class Columns:
    """What is read of each row.

    Args:
        fields: required columns and what they hold.
        optional: columns that may be absent and hold anything; read as JSON text.
        nullable: those of `fields` whose value, but not whose column, may be missing.
    """

    fields: Mapping[str, Kind]
    optional: Sequence[str] = ()
    nullable: Sequence[str] = ()


def in_range(value: str, kind: Kind) -> str:
    """A SQL condition, never NULL: a BIGINT expression is there and what `kind` may be."""
    if kind is not Kind.milliseconds:
        return f"{value} IS NOT NULL"
    first, last = SECONDS
    return (
        f"coalesce({value} BETWEEN 0 AND {first - 1} "
        f"OR {value} BETWEEN {last} AND {TOO_LATE - 1}, false)"
    )


def range_fault(name: str, value: int, kind: Kind) -> str | None:
    """What is wrong with an integer, or None: `in_range` in words."""
    what = f"the field {name!r} is {value}"
    if not -LARGEST - 1 <= value <= LARGEST:
        return f"{what}, which does not fit in 64 bits"
    if kind is not Kind.milliseconds:
        return None
    if value < 0:
        return f"{what}, which is before 1970; it must be UTC milliseconds"
    if SECONDS[0] <= value < SECONDS[1]:
        return f"{what}, which looks like seconds; it must be UTC milliseconds"
    if value >= TOO_LATE:
        return f"{what}, which looks like micro- or nanoseconds; it must be UTC milliseconds"
    return None


def quoted(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
