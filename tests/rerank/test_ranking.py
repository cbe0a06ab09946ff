"""The driver of ranking algorithms, with judges that know the answer or refuse to give it."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from memrerank.errors import ConfigError, DataError
from memrerank.evaluation.metrics import evaluate_rankings
from memrerank.rerank.algorithms import Rounds, knockout
from memrerank.rerank.asking import Asker
from memrerank.rerank.ranking import RankingPlan, rank_pools
from memrerank.schema import (
    Choice,
    Comparison,
    Failure,
    Memory,
    Pool,
    Product,
    Query,
    Question,
    Ranking,
)

CORPUS = {f"p{i}": Product(f"p{i}", f"product {i}", "", "Electronics") for i in range(12)}
QUERIES = [Query(f"q{i}", f"need {i}", "u", "p0", "Electronics", 1) for i in range(2)]
POOLS = {
    "q0": Pool("q0", "bm25", tuple(f"p{i}" for i in range(12))),
    "q1": Pool("q1", "bm25", ("p3", "p1", "p2")),
}
MEMORIES = {"q0": Memory("likes big numbers"), "q1": Memory()}


class Judge:
    """Answers with a function of the comparison, and keeps the batches."""

    def __init__(self, answer: Callable[[Comparison], str | None]) -> None:
        self.answer = answer
        self.batches: list[list[Comparison]] = []

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        self.batches.append(list(comparisons))
        choices = []
        for comparison in comparisons:
            ids = [product.id for product in comparison.candidates]
            winner = self.answer(comparison)
            failure = Failure.invalid if winner is None else None
            choices.append(Choice(None if winner is None else ids.index(winner), failure=failure))
        return choices


def largest(comparison: Comparison) -> str:
    return max((p.id for p in comparison.candidates), key=lambda name: int(name[1:]))


def rank(
    judge: object,
    memories: dict[str, Memory] | None = None,
    votes: int = 1,
    stop_at_positive: bool = False,
) -> list[Ranking]:
    plan = RankingPlan(partial(knockout, top_k=3, set_size=3), votes=votes)
    return rank_pools(
        QUERIES,
        memories or MEMORIES,
        POOLS,
        CORPUS,
        judge,  # type: ignore[arg-type]
        plan,
        stop_at_positive=stop_at_positive,
    )


def test_queries_advance_together() -> None:
    judge = Judge(largest)
    first, second = rank(judge)
    # 12 in sets of 3: 4 + (1 and a lone one) + 1 calls, then 3 and 2 replayed: p10 is where p11
    # was, p9 then is alone in its set
    assert first.product_ids[:3] == ("p11", "p10", "p9")
    assert sorted(first.product_ids) == sorted(CORPUS)
    # p3, then p2 of two, then p1 alone
    assert second == Ranking("q1", ("p3", "p2", "p1"), calls=2, rounds=2, invalid=0)
    assert [len(batch) for batch in judge.batches][:2] == [4 + 1, 1 + 1]
    assert first.rounds == len(judge.batches)
    assert first.calls == sum(len(batch) for batch in judge.batches) - 2


def test_what_a_comparison_shows() -> None:
    judge = Judge(largest)
    rank(judge)
    for comparison in (c for batch in judge.batches for c in batch):
        assert comparison.query == f"need {comparison.query_id[1]}"
        assert comparison.memory == MEMORIES[comparison.query_id]
        assert comparison.sample == 0
    first_round = [{p.id for p in c.candidates} for c in judge.batches[0][:4]]
    assert first_round == [{f"p{i}" for i in range(start, start + 3)} for start in range(0, 12, 3)]


def test_questions_that_were_asked_again_count_as_calls_and_rounds() -> None:
    judge = Judge(lambda c: None if c.attempt == 0 else largest(c))
    rankings = rank(Asker(judge, seed=7, max_reasks=1))
    assert rankings[0].product_ids[:3] == ("p11", "p10", "p9")
    assert rankings[1] == Ranking("q1", ("p3", "p2", "p1"), calls=4, rounds=4, invalid=0)


@pytest.mark.parametrize("max_reasks", [0, 1, 2])
def test_without_any_answer_the_retriever_decides(max_reasks: int) -> None:
    rankings = rank(Asker(Judge(lambda c: None), seed=7, max_reasks=max_reasks))
    # p0, p1, p2, then by level: p9 (its set of one goes on unasked), p3 and p6, the others
    assert rankings[0].product_ids == tuple(f"p{i}" for i in (0, 1, 2, 9, 3, 6, 4, 5, 7, 8, 10, 11))
    assert rankings[1].product_ids == POOLS["q1"].product_ids
    asks = 1 + max_reasks
    assert rankings[1].calls == 2 * asks
    assert rankings[1].rounds == 2 * asks
    assert rankings[1].invalid == 2


def test_an_index_out_of_range_is_no_answer() -> None:
    class Wild:
        def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
            return [Choice(-1) for _ in comparisons]

    assert rank(Asker(Wild(), seed=7, max_reasks=0))[1].invalid == 2


def test_the_majority_of_votes_counts() -> None:
    # of three votes two are right, whichever set it is
    judge = Judge(lambda c: largest(c) if c.vote else min(p.id for p in c.candidates))
    first, second = rank(judge, votes=3)
    assert first.product_ids[:3] == ("p11", "p10", "p9")
    assert second == Ranking("q1", ("p3", "p2", "p1"), calls=2 * 3, rounds=2, invalid=0)
    assert [c.vote for c in judge.batches[0][:3]] == [0, 1, 2]


def test_votes_without_an_answer_do_not_count_and_ties_go_to_the_retriever() -> None:
    silent = Judge(lambda c: None if c.vote else largest(c))
    assert rank(silent, votes=3)[1].product_ids == ("p3", "p2", "p1")
    # q1 is p3, p1, p2 at the retriever: one vote for p2 and one for p1
    torn = Judge(lambda c: ("p2", "p1")[c.vote] if c.query_id == "q1" else largest(c))
    plan = RankingPlan(partial(knockout, top_k=1, set_size=3), votes=2)
    (ranking,) = rank_pools(QUERIES[1:], MEMORIES, POOLS, CORPUS, torn, plan)
    assert ranking.product_ids[0] == "p1"


def test_stopping_at_the_positive_changes_no_reciprocal_rank() -> None:
    queries = [
        Query(f"s{i}", f"need {i}", "u", f"p{i}", "Electronics", 1) for i in range(len(CORPUS))
    ]
    pools = {query.id: Pool(query.id, "bm25", tuple(CORPUS)) for query in queries}
    memories = {query.id: Memory() for query in queries}
    plan = RankingPlan(partial(knockout, top_k=5, set_size=3))
    whole = rank_pools(queries, memories, pools, CORPUS, Judge(largest), plan)
    early = rank_pools(
        queries, memories, pools, CORPUS, Judge(largest), plan, stop_at_positive=True
    )
    for measure in ("mrr_at_10", "mrr_at_5"):
        values = [evaluate_rankings(r, queries).per_query[measure] for r in (whole, early)]
        top = {f"s{i}": v for i, v in enumerate(values[0].values()) if i >= 7}  # the five placed
        assert top == {key: values[1][key] for key in top}
        assert set(top.values()) == {1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5}
    assert sum(r.calls for r in early) < sum(r.calls for r in whole)
    assert early[11].calls == 4 + 2 + 1 - 1  # p11 is first: no path is played again
    assert early[0].calls == whole[0].calls  # p0 never gets a place


@pytest.mark.parametrize(
    ("plan", "stop", "message"),
    [
        (RankingPlan(knockout, votes=0), False, "ranking.votes=0"),
        (RankingPlan(knockout, Question.order), False, "asks the judge to order, which it cannot"),
        (RankingPlan(lambda ids: iter(())), True, "eval.stop_at_positive: this ranking algorithm"),
    ],
)
def test_plans_that_cannot_work(plan: RankingPlan, stop: bool, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rank_pools([], {}, {}, {}, Judge(largest), plan, stop_at_positive=stop)


def test_orders_and_scores_reach_the_algorithm() -> None:
    class Knowing(Judge):
        def order(self, comparisons: Sequence[Comparison]) -> list[Choice]:
            orders = [
                sorted(range(len(c.candidates)), key=lambda i: c.candidates[i].id)
                for c in comparisons
            ]
            return [Choice(one[0], order=tuple(one)) for one in orders]

        def score(self, comparisons: Sequence[Comparison]) -> list[Choice]:
            scores = [tuple(float(p.id[1:]) for p in c.candidates) for c in comparisons]
            return [Choice(0, scores=one) for one in scores]

    received: list[object] = []

    def one_round(ids: Sequence[str]) -> Rounds:
        received.extend((yield [tuple(ids)]))
        return list(ids)

    for question in (Question.order, Question.score):
        judge = Asker(Knowing(largest), seed=1, max_reasks=0)
        rank_pools(QUERIES[1:], MEMORIES, POOLS, CORPUS, judge, RankingPlan(one_round, question))
    assert received == [("p1", "p2", "p3"), (3.0, 1.0, 2.0)]  # the pool is p3, p1, p2


def test_missing_inputs_are_named() -> None:
    plan = RankingPlan(partial(knockout, top_k=1, set_size=2))
    judge = Judge(largest)
    with pytest.raises(DataError, match="query q1 has no memory"):
        rank_pools(QUERIES, {"q0": Memory()}, POOLS, CORPUS, judge, plan)
    with pytest.raises(DataError, match="query q0 has no pool"):
        rank_pools(QUERIES, MEMORIES, {}, CORPUS, judge, plan)
    corpus = {k: v for k, v in CORPUS.items() if k != "p3"}
    with pytest.raises(DataError, match="pool of query q1 holds product p3"):
        rank_pools(QUERIES[1:], MEMORIES, POOLS, corpus, judge, plan)
