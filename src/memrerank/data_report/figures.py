"""The figures of a data report, as matplotlib figures without global state."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memrerank.data_report.coverage import Coverage
from memrerank.data_report.histories import LengthBins, ShownCategories

# Okabe and Ito's colours, which people with colour blindness can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
MARKERS = "osD^vP"
INCHES_PER_CATEGORY = 0.55
BAR = 0.4  # thickness of each bar of a pair; 1 is the distance between pairs
SIDES = (("within", COLOURS[0], -BAR / 2), ("cross", COLOURS[1], BAR / 2))  # with offset


def categories_figure(shown: ShownCategories) -> Figure:
    """Mean length within and across, a pair of bars per category; ticks mark the medians."""
    lengths = shown.lengths
    height = 1.8 + INCHES_PER_CATEGORY * max(2, len(lengths))
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.subplots()
    places = range(len(lengths))
    for side, colour, offset in SIDES:
        at = [place + offset for place in places]
        means = [getattr(one, f"{side}_mean") for one in lengths]
        medians = [getattr(one, f"{side}_median") for one in lengths]
        axes.barh(at, means, height=BAR, color=colour, label=f"{side}, mean")
        axes.plot(medians, at, linestyle="none", marker="|", markersize=11, color="black")
        for place, mean, median in zip(at, means, medians, strict=True):
            axes.annotate(
                f"{mean:.1f} ({median:g})",
                (max(mean, median), place),  # beside whichever reaches farther
                xytext=(6, 0),
                textcoords="offset points",
                verticalalignment="center",
                fontsize=8,
            )
    axes.set_yticks(places, [f"{_spaced(one.category)} ({one.queries:,})" for one in lengths])
    axes.set_ylim(len(lengths) - 0.4, -0.6)  # the first on top
    axes.margins(x=0.15)
    axes.set_xlim(left=0)
    axes.set_xlabel("purchases before the target: mean (median, black tick)")
    axes.set_title("History lengths by category (queries), before any filter")
    figure.legend(loc="outside lower center", ncols=len(SIDES))
    return figure


def lengths_figure(bins: LengthBins, category: str) -> Figure:
    """How many histories have each length, within and across, after filters."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    places = range(len(bins.labels))
    few = len(bins.labels) <= 15  # more bars leave no room for their values
    for side, colour, offset in SIDES:
        at = [place + offset for place in places]
        bars = axes.bar(at, getattr(bins, side), width=BAR, color=colour, label=side)
        axes.bar_label(bars, padding=2, fontsize=8 if few else 6, rotation=0 if few else 90)
    axes.set_xticks(places, bins.labels, rotation=0 if few else 45)
    axes.margins(y=0.12)
    axes.set_xlabel("purchases in the history, after filters")
    axes.set_ylabel("queries")
    axes.set_title(f"History lengths in {_spaced(category)}")
    axes.legend()
    return figure


def recall_figure(coverage: Sequence[Coverage]) -> Figure:
    """Recall against the cut-off: a panel per split, a line per retriever."""
    splits = list(dict.fromkeys(row.split for row in coverage))
    figure = Figure(figsize=(1 + 3.6 * len(splits), 4), layout="constrained")
    panels = figure.subplots(1, len(splits), squeeze=False, sharey=True)[0]
    retrievers = list(dict.fromkeys(row.retriever for row in coverage))
    for panel, split in zip(panels, splits, strict=True):
        rows = [row for row in coverage if row.split is split and row.recall]
        for row in rows:
            style = retrievers.index(row.retriever) % len(COLOURS)
            shares = list(row.recall.values())
            panel.plot(
                list(row.recall),
                shares,
                color=COLOURS[style],
                marker=MARKERS[style],
                label=f"{row.retriever} ({shares[-1]:.3f})",
            )
        queries = next(row.queries for row in coverage if row.split is split)
        panel.set_title(f"{split.value} ({queries:,} {'query' if queries == 1 else 'queries'})")
        _recall_axes(panel, sorted({k for row in rows for k in row.recall}))
        if rows:
            panel.legend(title=f"recall@{max(rows[0].recall)}", loc="lower right", fontsize=8)
    panels[0].set_ylabel("queries with the positive among the first k")
    return figure


def _recall_axes(panel: Axes, cutoffs: Sequence[int]) -> None:
    panel.set_xscale("log")
    panel.set_xticks(cutoffs, [str(k) for k in cutoffs])
    panel.minorticks_off()
    panel.set_ylim(0, 1.02)
    panel.grid(alpha=0.3)
    panel.set_xlabel("k")


def _spaced(category: str) -> str:
    return category.replace("_", " ").replace("$", r"\$")  # matplotlib reads $...$ as formulas
