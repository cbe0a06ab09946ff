"""A data report in a folder: the Markdown and its figures."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from memrerank.data_report.facts import DataFacts
from memrerank.data_report.figures import categories_figure, lengths_figure, recall_figure
from memrerank.data_report.histories import choose_categories, length_bins
from memrerank.data_report.markdown import (
    CATEGORIES_IMAGE,
    LENGTHS_IMAGE,
    RECALL_IMAGE,
    report_markdown,
)
from memrerank.storage import atomic_path

REPORT_FILE = "data_report.md"
DOTS_PER_INCH = 120


def write_report(folder: Path, facts: DataFacts) -> list[Path]:
    """Writes the report and its figures, each atomically, and returns their paths."""
    figures = {
        CATEGORIES_IMAGE: categories_figure(choose_categories(facts.histories, facts.min_queries)),
        LENGTHS_IMAGE: lengths_figure(length_bins(facts.kept), facts.category),
        RECALL_IMAGE: recall_figure(facts.coverage),
    }
    for name, figure in figures.items():
        _write_figure(folder / name, figure)
    with atomic_path(folder / REPORT_FILE) as temporary:
        temporary.write_text(report_markdown(facts))
    return [folder / name for name in (REPORT_FILE, *figures)]


def _write_figure(path: Path, figure: Figure) -> None:
    figure.set_dpi(DOTS_PER_INCH)
    with atomic_path(path) as temporary:
        FigureCanvasAgg(figure).print_png(str(temporary))
