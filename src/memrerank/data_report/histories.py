"""How long histories are: before filters, by category (paper: Figure 9), and as they are kept."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from memrerank.data.engine import view
from memrerank.data.raw import RawStore
from memrerank.schema import History

MAX_BINS = 25  # bars of one side of the histogram

LENGTHS_BY_CATEGORY = """
WITH bought AS (
    SELECT query_id, category,
           count(*) FILTER (WHERE within) AS within_length,
           count(*) FILTER (WHERE NOT within) AS cross_length
    FROM purchases GROUP BY query_id, category
), lengths AS (
    SELECT category, coalesce(within_length, 0) AS within_length,
           coalesce(cross_length, 0) AS cross_length
    FROM targets LEFT JOIN bought USING (query_id, category)
)
SELECT category, count(*), avg(within_length), median(within_length),
       avg(cross_length), median(cross_length)
FROM lengths GROUP BY category ORDER BY count(*) DESC, category
"""


@dataclass(frozen=True, slots=True)
class HistoryLengths:
    """Purchases before the target in one category, over all its queries."""

    category: str
    queries: int
    within_mean: float
    within_median: float
    cross_mean: float
    cross_median: float


class ShownCategories(NamedTuple):
    """The categories of the figure, and how many others have too few queries for it."""

    lengths: list[HistoryLengths]
    left_out: int


@dataclass(frozen=True, slots=True)
class KeptLengths:
    """In how many histories of a benchmark each length occurs, by side."""

    within: Counter[int]
    cross: Counter[int]


class LengthBins(NamedTuple):
    """A histogram of lengths: bars by label, and how many histories each holds."""

    labels: list[str]
    within: list[int]
    cross: list[int]


def history_lengths(connection: duckdb.DuckDBPyConnection, raw: RawStore) -> list[HistoryLengths]:
    """The lengths of all categories, the one with most queries first.

    All purchases before the target count, whether or not they have a text, and queries without
    any count as 0; the benchmark's own filters come later.
    """
    view(connection, "targets", [raw.targets.path])
    view(connection, "purchases", [raw.purchases.path])
    return [HistoryLengths(*row) for row in connection.execute(LENGTHS_BY_CATEGORY).fetchall()]


def choose_categories(lengths: Sequence[HistoryLengths], min_queries: int) -> ShownCategories:
    """Those with `min_queries` queries or more (paper: 100); all, where none has as many."""
    shown = [one for one in lengths if one.queries >= min_queries] or list(lengths)
    return ShownCategories(shown, len(lengths) - len(shown))


def kept_lengths(histories: Iterable[History]) -> KeptLengths:
    """The lengths after the filters and the cap of the benchmark."""
    kept = KeptLengths(Counter(), Counter())
    for history in histories:
        kept.within[len(history.within)] += 1
        kept.cross[len(history.cross)] += 1
    return kept


def length_bins(kept: KeptLengths, most: int = MAX_BINS) -> LengthBins:
    """At most `most` bars of one width, from length 0 to the longest."""
    longest = max((*kept.within, *kept.cross), default=0)
    width = -(-(longest + 1) // most)
    starts = range(0, longest + 1, width)
    labels = [str(start) if width == 1 else f"{start}–{start + width - 1}" for start in starts]
    within, cross = (
        [sum(side[length] for length in range(start, start + width)) for start in starts]
        for side in (kept.within, kept.cross)
    )
    return LengthBins(labels, within, cross)
