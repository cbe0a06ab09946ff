"""Runs side by side: a Markdown table for people, with the doubt that belongs to each number."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from memrerank.evaluation.results import RunResult
from memrerank.evaluation.significance import bootstrap_interval, compare

PRIMARY = "mrr_at_10"
SEED = 0  # of the resampling: the same results give the same table
MISSING = "–"


def comparison_table(results: Sequence[RunResult], reference: str = "none") -> str:
    """Markdown: one table for each category and set of queries, one row for each run.

    MRR stands with its 95% bootstrap interval over queries. Difference and p (paired sign-flip
    test, two-sided, MRR@10) are against the run whose label `baseline` is `reference` and that
    shares most other labels with the row; without such a run those columns stay empty. Labels
    that all rows share are in the heading, the others in columns.
    """
    return "\n\n".join(_table(group, reference) for group in comparable_groups(results))


def comparable_groups(results: Sequence[RunResult]) -> list[list[RunResult]]:
    """Results over the same queries of the same category together, in order of appearance."""
    groups: dict[tuple[str, frozenset[str]], list[RunResult]] = {}
    for result in results:
        queries = frozenset(result.per_query.get(PRIMARY, {}))
        groups.setdefault((result.labels.get("category", ""), queries), []).append(result)
    return list(groups.values())


def interval_of(result: RunResult, measure: str) -> tuple[float, float] | None:
    """The 95% bootstrap interval of a measure's mean; None where its queries are not recorded."""
    values = result.per_query.get(measure)
    return bootstrap_interval(np.array(list(values.values())), seed=SEED) if values else None


def row_name(result: RunResult, varying: Sequence[str]) -> str:
    """The baseline, and those other labels that tell the row from its neighbours."""
    parts = [result.labels.get("baseline", MISSING)]
    parts += [f"{name}={result.labels[name]}" for name in varying if name in result.labels]
    return " ".join(parts)


def varying_labels(group: Sequence[RunResult]) -> list[str]:
    """The labels, other than the baseline, that differ within a group."""
    names = dict.fromkeys(name for result in group for name in result.labels)
    return [
        name
        for name in names
        if name != "baseline" and len({result.labels.get(name) for result in group}) > 1
    ]


def _table(group: Sequence[RunResult], reference: str) -> str:
    varying = varying_labels(group)
    rows = [_cells(result, _reference(result, group, reference), varying) for result in group]
    shared = [
        f"{name}={value}"
        for name, value in group[0].labels.items()
        if name != "baseline" and name not in varying
    ]
    lines = [f"`{' '.join(shared)}`", ""] if shared else []
    lines.append(_line(rows[0]))
    lines.append(_line(["---", *["---:"] * (len(rows[0]) - 1)]))
    lines += [_line(row.values()) for row in rows]
    return "\n".join(lines)


def _cells(
    result: RunResult, reference: RunResult | None, varying: Sequence[str]
) -> dict[str, str]:
    """The row of a run, by the heads of the columns."""
    difference, p_value = _against(result, reference)
    return {
        "baseline": result.labels.get("baseline", MISSING),
        **{name: result.labels.get(name, MISSING) for name in varying},
        "queries": str(len(result.per_query.get(PRIMARY, {}))),
        "recall@100": _number(result, "recall_at_100", 3),
        "MRR@10 [95%]": _with_interval(result, "mrr_at_10"),
        "MRR@5 [95%]": _with_interval(result, "mrr_at_5"),
        "Δ MRR@10": difference,
        "p": p_value,
        "memory words": _number(result, "memory_words", 1),
        "calls/query": _number(result, "calls_per_query", 1),
        "s/query": _number(result, "seconds_per_query", 2),
    }


def _reference(result: RunResult, group: Sequence[RunResult], reference: str) -> RunResult | None:
    """The reference run most like a run: the one that shares most labels, the first of equals."""
    candidates = [other for other in group if other.labels.get("baseline") == reference]
    shared = [len(result.labels.items() & other.labels.items()) for other in candidates]
    return candidates[shared.index(max(shared))] if candidates else None


def _against(result: RunResult, reference: RunResult | None) -> tuple[str, str]:
    """The cells of difference and p."""
    if reference is None or not result.per_query.get(PRIMARY):
        return MISSING, MISSING
    if reference is result:
        return "reference", MISSING
    paired = compare(result.per_query[PRIMARY], reference.per_query[PRIMARY], seed=SEED)
    return f"{paired.difference:+.4f}", f"{paired.p_value:.4f}"


def _with_interval(result: RunResult, measure: str) -> str:
    interval = interval_of(result, measure)
    number = _number(result, measure, 4)
    return f"{number} [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else number


def _number(result: RunResult, metric: str, digits: int) -> str:
    value = result.metrics.get(metric, math.nan)
    return MISSING if math.isnan(value) else f"{value:.{digits}f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
