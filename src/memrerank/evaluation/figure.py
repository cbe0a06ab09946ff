"""Runs side by side as a bar chart."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from memrerank.evaluation.results import RunResult
from memrerank.evaluation.table import (
    PRIMARY,
    comparable_groups,
    interval_of,
    row_name,
    varying_labels,
)
from memrerank.storage import atomic_path

BAR_COLOUR = "#4c72b0"
INCHES_PER_BAR = 0.4


def comparison_figure(results: Sequence[RunResult]) -> Figure:
    """MRR@10 of each run with its 95% interval; a panel for each group of comparable runs."""
    groups = comparable_groups(results)
    heights = [max(2, len(group)) for group in groups]
    size = (8, INCHES_PER_BAR * sum(heights) + 1.2 * len(groups))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, group in zip(panels, groups, strict=True):
        varying = varying_labels(group)
        means = [result.metrics.get(PRIMARY, 0.0) for result in group]
        intervals = [
            interval_of(result, PRIMARY) or (mean, mean)
            for result, mean in zip(group, means, strict=True)
        ]
        reach = [  # matplotlib takes distances below and above the bar's end, never negative
            [max(0.0, mean - low) for mean, (low, _) in zip(means, intervals, strict=True)],
            [max(0.0, high - mean) for mean, (_, high) in zip(means, intervals, strict=True)],
        ]
        places = range(len(group))
        panel.barh(places, means, xerr=reach, color=BAR_COLOUR, capsize=3)
        panel.set_yticks(places, [row_name(result, varying) for result in group])
        panel.invert_yaxis()
        panel.set_xlim(left=0)
        panel.set_xlabel("MRR@10 (bars: mean over queries; whiskers: 95% bootstrap interval)")
        category = group[0].labels.get("category", "")
        panel.set_title(f"{category} ({len(group[0].per_query.get(PRIMARY, {}))} queries)".strip())
    return figure


def write_figure(path: Path, results: Sequence[RunResult]) -> None:
    """Writes `comparison_figure` as PNG, atomically."""
    figure = comparison_figure(results)
    with atomic_path(path) as temporary:
        FigureCanvasAgg(figure).print_png(str(temporary))
