"""The data report of a shop whose every number is known."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import small_shop
from matplotlib import image
from small_shop import USERS

from memrerank.data.engine import EngineSettings, connect
from memrerank.data.instances import sample_instances
from memrerank.data.leaks import Leak
from memrerank.data_report import (
    Coverage,
    DataFacts,
    collect_facts,
    facts_metrics,
    measure_coverage,
    write_report,
)
from memrerank.data_report.averages import mean_and_median
from memrerank.data_report.coverage import is_eligible, recall_curve
from memrerank.data_report.figures import categories_figure, lengths_figure, recall_figure
from memrerank.data_report.histories import (
    HistoryLengths,
    KeptLengths,
    choose_categories,
    history_lengths,
    length_bins,
)
from memrerank.data_report.leaks import AS_READ, IN_USE, benchmark_leaks
from memrerank.data_report.markdown import report_markdown
from memrerank.data_report.tables import table
from memrerank.schema import Split

PENS = HistoryLengths("Pens", 4, 1.0, 0.5, 2.0, 1.0)
INKS = HistoryLengths("Inks", 1, 1.0, 1.0, 3.0, 3.0)
PER_PAIR = {Split.train: 3, Split.dev: 2}


def coverage(size: int = 10, **changes: object) -> list[Coverage]:
    rows = measure_coverage(
        small_shop.benchmark(),
        "bm25",
        small_shop.pools(size),
        pool_size=size,
        per_pair=PER_PAIR,
        seed=0,
    )
    return [replace(row, **changes) for row in rows]


@pytest.fixture
def facts(tmp_path: Path) -> DataFacts:
    return collect_facts(
        small_shop.prepared(tmp_path),
        [*coverage(), *coverage(retriever="linq", instances=None, repeated=None)],
        settings={"data": "amazon2023"},
        min_queries=2,
        engine=EngineSettings(threads=1),
        folder=tmp_path,
    )


# ---------------------------------------------------------------- what is measured


def test_lengths_before_filters_count_every_query_of_a_category(tmp_path: Path) -> None:
    raw = small_shop.write_raw(tmp_path)
    with connect(EngineSettings(), tmp_path) as connection:
        assert history_lengths(connection, raw) == [PENS, INKS]


@pytest.mark.parametrize(
    ("min_queries", "shown", "left_out"),
    [(1, [PENS, INKS], 0), (2, [PENS], 1), (4, [PENS], 1), (5, [PENS, INKS], 0)],
)
def test_small_categories_are_left_out_unless_all_are(
    min_queries: int, shown: list[HistoryLengths], left_out: int
) -> None:
    assert choose_categories([PENS, INKS], min_queries) == (shown, left_out)


def test_bars_of_a_histogram_cover_every_length_once() -> None:
    kept = KeptLengths(Counter({0: 2, 1: 1, 9: 4}), Counter({3: 5}))
    assert length_bins(kept, most=10) == (
        [str(length) for length in range(10)],
        [2, 1, 0, 0, 0, 0, 0, 0, 0, 4],
        [0, 0, 0, 5, 0, 0, 0, 0, 0, 0],
    )
    assert length_bins(kept, most=5) == (
        ["0–1", "2–3", "4–5", "6–7", "8–9"],
        [3, 0, 0, 0, 4],
        [0, 5, 0, 0, 0],
    )


def test_averages_of_counted_values() -> None:
    assert mean_and_median({}) == (0.0, 0.0)
    assert mean_and_median({7: 1}) == (7.0, 7.0)
    assert mean_and_median(Counter([0, 0, 3, 5])) == (2.0, 1.5)
    assert mean_and_median(Counter([9, 1, 2])) == (4.0, 2.0)


def test_what_a_retriever_covers_of_each_split() -> None:
    train, dev, test = coverage()
    assert train == Coverage(
        Split.train, "bm25", 2, eligible=2, instances=6, repeated=0, recall={1: 0.5, 5: 0.5, 10: 1}
    )
    assert dev == Coverage(
        Split.dev, "bm25", 1, eligible=0, instances=0, repeated=0, recall={1: 0, 5: 0, 10: 0}
    )
    assert test == Coverage(
        Split.test, "bm25", 1, 1, instances=None, repeated=None, recall={1: 0, 5: 0, 10: 1}
    )


def test_recall_is_told_at_the_size_of_the_pool_too() -> None:
    queries = small_shop.benchmark().queries[Split.train]
    assert recall_curve(queries, small_shop.pools(), 7) == {1: 0.5, 5: 0.5, 7: 1.0}
    assert list(recall_curve(queries, small_shop.pools(), 120)) == [1, 5, 10, 20, 50, 100, 120]
    assert recall_curve([], {}, 100) == {}


@pytest.mark.parametrize("size", range(1, 11))
def test_eligible_is_what_instances_are_drawn_from(size: int) -> None:
    benchmark, pools = small_shop.benchmark(), small_shop.pools(size)
    queries = [query for split in benchmark.queries.values() for query in split]
    counts = sample_instances(queries, pools, benchmark.corpus, per_pair=1, seed=0).counts
    eligible = sum(is_eligible(query, pools[query.id]) for query in queries)
    assert eligible == counts.get("pairs_eligible", 0)


def test_leaks_are_looked_for_with_the_titles_and_the_reviews(facts: DataFacts) -> None:
    (leaks,) = facts.leaks.values()
    assert leaks.with_title_words == (Leak("q4", ("zebrano",)),)
    assert leaks.with_review_runs == (Leak("q2", ("it writes so well and never",)),)
    assert leaks.counts == {
        "checked": 4, "without_review": 2, "title_words": 1, "review_runs": 1, "either": 2
    }  # fmt: skip


def test_rewritten_queries_are_compared_with_what_was_read(tmp_path: Path) -> None:
    data = small_shop.prepared(tmp_path)
    dev = (replace(small_shop.query("q2"), text="a pen that does not dry out"),)
    benchmark = replace(data.benchmark, queries={**data.benchmark.queries, Split.dev: dev})
    with connect(EngineSettings(), tmp_path) as connection:
        leaks = benchmark_leaks(connection, benchmark, data.raw)
    assert leaks[IN_USE].counts["review_runs"] == 0
    assert leaks[AS_READ].counts["review_runs"] == 1


def test_scalars_go_by_the_same_names_for_every_category(facts: DataFacts) -> None:
    metrics = facts_metrics(facts)
    expected = {
        "train/queries": 2,
        "train/users": 1,
        "test/users": 1,
        "train/bm25/recall_at_5": 0.5,
        "train/bm25/eligible_pairs": 2,
        "train/bm25/instances": 6,
        "histories/within_mean": 1.0,
        "histories/within_median": 0.5,
        "histories/cross_mean": 2.0,
        "histories/kept_within_mean": 0.75,  # 2, 1, 0, 0
        "histories/kept_within_median": 0.5,
        "histories/kept_cross_mean": 2.0,  # 1, 6, 0, 1
        "corpus/products": 10,
        "corpus/share_without_description": 0.3,
        "corpus/words_mean": (7 * 5 + 3 * 3) / 10,  # "plain pen 1" and "blue ink"
        "corpus/words_median": 5.0,
        "leaks/share_either": 0.5,
        "counts/queries_in_file": 1234,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert "test/bm25/instances" not in metrics
    assert "train/linq/instances" not in metrics


# ---------------------------------------------------------------- what is written


def test_the_report_holds_the_numbers(facts: DataFacts) -> None:
    report = report_markdown(facts)
    targets = facts.steps["targets"].sha256[:16]
    purchases = facts.steps["purchases"].sha256[:16]
    corpus = small_shop.benchmark().corpus.fingerprint[:16]
    for line in (
        "| train | 2 | 1 |",
        "| train | bm25 | 2 | 1 | 2 (100.0%) | 6 | 0 |",
        "| dev | bm25 | 1 | 1 | 0 (0.0%) | 0 | 0 |",
        "| test | bm25 | 1 | 1 | 1 (100.0%) | – | – |",
        "| train | linq | 2 | 1 | 2 (100.0%) | – | – |",
        "| split | retriever | @1 | @5 | @10 |",
        "| train | bm25 | 0.500 | 0.500 | 1.000 |",
        "Left out for having fewer than 2 queries: 1 category.",
        "| Pens | 4 | 1.00 | 0.5 | 2.00 | 1 |",
        "| without description, features or details | 3 (30.0%) |",
        "| products cut at max words, histories included | 2 |",
        "| words cut at max words, histories included | 9 |",
        "| queries in use | 4 | 2 | 1 (25.0%) | 1 (25.0%) | 2 (50.0%) |",
        "- queries in use, title words, first 1 of 1: `q4`: zebrano",
        "| queries in file | 1,234 |",
        f"| benchmark | `{'f' * 16}` |",
        f"| corpus | `{corpus}` |",
        f"| `amazon/test.csv` | `{'a' * 16}` |",
        f"| `targets` | `{targets}` | made |",
        f"| `purchases` | `{purchases}` | reused |",
    ):
        assert line in report.splitlines(), line
    assert "within 0.75 on average (median 0.5), cross 2.00 (median 1); 2 queries have no" in report
    assert "| Inks |" not in report


def test_no_user_is_named(facts: DataFacts) -> None:
    told = report_markdown(facts) + " ".join(facts_metrics(facts)) + repr(facts)
    assert not [user for user in USERS if user in told]


def test_where_every_category_is_small_that_is_said(facts: DataFacts) -> None:
    report = report_markdown(replace(facts, min_queries=100))
    assert "No category has 100 queries, so all are shown." in report
    assert "| Inks | 1 | 1.00 | 1 | 3.00 | 3 |" in report


def test_the_files_of_a_report(facts: DataFacts, tmp_path: Path) -> None:
    report, *figures = write_report(tmp_path / "new" / "folder", facts)
    assert sorted(path.name for path in report.parent.iterdir()) == sorted(
        ["data_report.md", "history_by_category.png", "history_lengths.png", "recall.png"]
    )
    for figure in figures:
        assert f"]({figure.name})" in report.read_text()
        pixels = image.imread(figure)  # PNG, or it raises
        assert pixels.std() > 0.01, figure.name  # not blank


def test_cells_stay_cells() -> None:
    assert table(["a", "b"], [["x|y\nz", "1"]]) == "| a | b |\n| --- | ---: |\n| x\\|y z | 1 |"


# ---------------------------------------------------------------- what is drawn


def test_each_category_has_a_bar_within_and_one_across() -> None:
    (axes,) = categories_figure(choose_categories([PENS, INKS], 1)).axes
    assert [bar.get_width() for bar in axes.patches] == [1.0, 1.0, 2.0, 3.0]
    assert [text.get_text() for text in axes.texts] == [
        "1.0 (0.5)", "1.0 (1)", "2.0 (1)", "3.0 (3)"
    ]  # fmt: skip
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Pens (4)", "Inks (1)"]


def test_a_category_may_have_any_name() -> None:
    (axes,) = categories_figure(choose_categories([replace(PENS, category="$_5$")], 1)).axes
    assert axes.get_yticklabels()[0].get_text() == r"\$ 5\$ (4)"


def test_the_histogram_draws_its_bins() -> None:
    bins = length_bins(KeptLengths(Counter({0: 2, 2: 1}), Counter({1: 3})))
    (axes,) = lengths_figure(bins, "Pens").axes
    assert [bar.get_height() for bar in axes.patches] == [2, 0, 1, 0, 3, 0]


def test_recall_has_a_panel_for_each_split_and_a_line_for_each_retriever() -> None:
    other = coverage(retriever="minilm", recall={1: 0.25, 10: 0.75})
    panels = recall_figure([*coverage(), *other]).axes
    assert [panel.get_title() for panel in panels] == [
        "train (2 queries)",
        "dev (1 query)",
        "test (1 query)",
    ]
    first, second = panels[0].lines
    assert first.get_xydata().tolist() == [[1, 0.5], [5, 0.5], [10, 1.0]]
    assert second.get_xydata().tolist() == [[1, 0.25], [10, 0.75]]
    assert (first.get_label(), second.get_label()) == ("bm25 (1.000)", "minilm (0.750)")
