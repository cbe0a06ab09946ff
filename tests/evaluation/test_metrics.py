"""Measures and TREC files on three rankings that can be checked by eye."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrerank.errors import DataError
from memrerank.evaluation.metrics import evaluate_rankings, write_trec_qrels, write_trec_run
from memrerank.schema import Query, Ranking


def query(query_id: str, positive: str) -> Query:
    return Query(query_id, "text", "u", positive, "Electronics", 1)


def ranking(query_id: str, *ids: str) -> Ranking:
    return Ranking(query_id, ids, 0, 0, 0)


TEN = tuple("abcdefghij")
QUERIES = [query("q1", "b"), query("q2", "g"), query("q3", "absent"), query("q4", "a")]
RANKINGS = [ranking("q4", *TEN), ranking("q1", *TEN), ranking("q2", *TEN), ranking("q3", *TEN)]


def test_measures_worked_out_by_hand() -> None:
    evaluation = evaluate_rankings(RANKINGS, QUERIES)
    assert evaluation.per_query["mrr_at_10"] == {"q1": 1 / 2, "q2": 1 / 7, "q3": 0.0, "q4": 1.0}
    assert evaluation.per_query["mrr_at_5"] == {"q1": 1 / 2, "q2": 0.0, "q3": 0.0, "q4": 1.0}
    assert evaluation.means == pytest.approx(
        {
            "mrr_at_10": (1 / 2 + 1 / 7 + 1) / 4,
            "mrr_at_5": 1.5 / 4,
            "hit_rate_at_1": 1 / 4,
            "hit_rate_at_10": 3 / 4,
            "recall_at_100": 3 / 4,
        }
    )


def test_an_empty_ranking_counts_zero() -> None:
    evaluation = evaluate_rankings([ranking("q1"), ranking("q4", "a")], [QUERIES[0], QUERIES[3]])
    assert evaluation.per_query["mrr_at_10"] == {"q1": 0.0, "q4": 1.0}
    assert evaluation.means["mrr_at_10"] == 0.5


@given(st.integers(1, 120), st.data())
def test_reciprocal_rank_at_any_place(n: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, n))
    ids = [f"p{i}" for i in range(1, n + 1)]
    means = evaluate_rankings([ranking("q", *ids)], [query("q", f"p{rank}")]).means
    assert means["mrr_at_10"] == pytest.approx(1 / rank if rank <= 10 else 0.0)
    assert means["mrr_at_5"] == pytest.approx(1 / rank if rank <= 5 else 0.0)
    assert means["recall_at_100"] == (1.0 if rank <= 100 else 0.0)


@pytest.mark.parametrize(
    ("rankings", "queries", "message"),
    [
        ([], [], "no queries to evaluate"),
        (RANKINGS[1:], QUERIES, "query q4 is in only one"),
        (RANKINGS, QUERIES[1:], "query q1 is in only one"),
        ([*RANKINGS, RANKINGS[0]], QUERIES, "more than one ranking has the query id q4"),
    ],
)
def test_rankings_must_fit_queries(rankings: list, queries: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate_rankings(rankings, queries)


def test_trec_files(tmp_path: Path) -> None:
    run, qrels = tmp_path / "a" / "run.txt", tmp_path / "qrels.txt"
    write_trec_run(run, [ranking("q1", "x", "y"), ranking("q2", "z")], "my run")
    write_trec_qrels(qrels, [query("q1", "y"), query("q2", "w")])
    assert run.read_text() == "q1 Q0 x 1 2 my_run\nq1 Q0 y 2 1 my_run\nq2 Q0 z 1 1 my_run\n"
    assert qrels.read_text() == "q1 0 y 1\nq2 0 w 1\n"


def test_trec_files_give_the_same_measures(tmp_path: Path) -> None:
    import ir_measures

    write_trec_run(tmp_path / "run", RANKINGS, "x")
    write_trec_qrels(tmp_path / "qrels", QUERIES)
    measured = ir_measures.calc_aggregate(
        [ir_measures.parse_measure("RR@10")],
        ir_measures.read_trec_qrels(str(tmp_path / "qrels")),
        ir_measures.read_trec_run(str(tmp_path / "run")),
    )
    (value,) = measured.values()
    assert value == pytest.approx(evaluate_rankings(RANKINGS, QUERIES).means["mrr_at_10"])
