"""The comparison table, cell by cell, and the results that it is made from."""

from pathlib import Path

import pytest

from memrerank.errors import DataError
from memrerank.evaluation.figure import comparison_figure, write_figure
from memrerank.evaluation.results import RunResult
from memrerank.evaluation.table import comparison_table


def result(
    baseline: str, values: list[float], first: int = 0, category: str = "Electronics", **labels: str
) -> RunResult:
    per_query = {f"q{first + i}": value for i, value in enumerate(values)}
    return RunResult(
        labels={"category": category, "target": "wc", "baseline": baseline, **labels},
        metrics={
            "mrr_at_10": sum(values) / len(values),
            "mrr_at_5": sum(values) / len(values),
            "recall_at_100": 0.9,
            "calls_per_query": 52.0,
            "seconds_per_query": 0.25,
        },
        per_query={"mrr_at_10": per_query, "mrr_at_5": per_query},
    )


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_table_of_two_runs() -> None:
    none, raw = result("none", [0.5] * 4), result("raw", [1.0] * 4)
    heading, _, head, rule, *rows = comparison_table([none, raw], "none").splitlines()
    assert heading == "`category=Electronics target=wc`"
    assert cells(head) == [
        *("baseline", "queries", "recall@100", "MRR@10 [95%]", "MRR@5 [95%]", "Δ MRR@10", "p"),
        *("memory words", "calls/query", "s/query"),
    ]
    assert len(cells(rule)) == len(cells(head))
    half, full = "0.5000 [0.5000, 0.5000]", "1.0000 [1.0000, 1.0000]"
    assert [cells(row) for row in rows] == [
        ["none", "4", "0.900", half, half, "reference", "–", "–", "52.0", "0.25"],
        ["raw", "4", "0.900", full, full, "+0.5000", "0.1250", "–", "52.0", "0.25"],
    ]


def test_without_the_reference_the_columns_stay_empty() -> None:
    row = comparison_table([result("raw", [1.0])], "none").splitlines()[-1]
    assert cells(row)[5:7] == ["–", "–"]


def test_each_row_is_compared_with_the_reference_most_like_it() -> None:
    runs = [
        result("none", [0.0, 0.0], seed="1"),
        result("none", [0.5, 0.5], seed="2"),
        result("raw", [1.0, 1.0], seed="2"),
        result("raw", [1.0, 1.0], seed="1"),
    ]
    heading, _, head, _, *rows = comparison_table(runs, "none").splitlines()
    assert heading == "`category=Electronics target=wc`"
    assert cells(head)[:2] == ["baseline", "seed"]
    found = [(cells(row)[1], cells(row)[6]) for row in rows]
    assert found == [("1", "reference"), ("2", "reference"), ("2", "+0.5000"), ("1", "+1.0000")]


def test_other_queries_and_other_categories_have_their_own_tables() -> None:
    runs = [
        result("none", [0.5, 0.5]),
        result("none", [0.5, 0.5], first=1),
        result("raw", [1.0, 0.5]),
        result("none", [0.5, 0.5], category="Beauty"),
    ]
    tables = comparison_table(runs, "none").split("\n\n|")
    assert [table.count("none") + table.count("raw") for table in tables[1:]] == [2, 1, 1]
    assert "+0.2500" in tables[1]


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    run = result("raw", [1.0, 1 / 3], seed="1")
    run.write(tmp_path / "job" / "result.json")
    assert RunResult.read(tmp_path / "job" / "result.json") == run


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"labels": {}, "metrics": {}, "per_query": 3}'])
def test_a_file_that_is_no_result_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(DataError, match=r"result.json: not the result of a run"):
        RunResult.read(tmp_path / "result.json")
    with pytest.raises(DataError, match=r"none.json: no such result"):
        RunResult.read(tmp_path / "none.json")


def test_the_figure_has_a_bar_for_each_run(tmp_path: Path) -> None:
    runs = [
        result("none", [0.0, 0.5], seed="1"),
        result("raw", [1.0, 0.5], seed="2"),
        result("none", [0.2], category="Beauty"),
    ]
    first, second = comparison_figure(runs).axes
    assert [bar.get_width() for bar in first.patches] == [0.25, 0.75]
    assert [label.get_text() for label in first.get_yticklabels()] == ["none seed=1", "raw seed=2"]
    assert [bar.get_width() for bar in second.patches] == [0.2]
    assert second.get_title() == "Beauty (1 queries)"
    write_figure(tmp_path / "comparison.png", runs)
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
