"""The driver of ranking algorithms, with judges that know the answer or refuse to give it."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from memrerank.errors import DataError
from memrerank.rerank.algorithms import knockout
from memrerank.rerank.ranking import rank_pools
from memrerank.schema import Choice, Comparison, Memory, Pool, Product, Query, Ranking

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
            choices.append(Choice(None if winner is None else ids.index(winner)))
        return choices


def largest(comparison: Comparison) -> str:
    return max((p.id for p in comparison.candidates), key=lambda name: int(name[1:]))


def rank(judge: Judge, memories: dict[str, Memory] | None = None, **options: int) -> list[Ranking]:
    algorithm = partial(knockout, top_k=3, set_size=3)
    options = {"seed": 7, **options}
    return rank_pools(QUERIES, memories or MEMORIES, POOLS, CORPUS, judge, algorithm, **options)


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


def shown(judge: Judge) -> list[list[str]]:
    return [[p.id for p in comparison.candidates] for comparison in judge.batches[0]]


def test_the_shuffle_depends_on_the_seed_and_the_set_only() -> None:
    judges = [Judge(largest) for _ in range(3)]
    rank(judges[0])
    rank(judges[1], {"q0": Memory("other"), "q1": Memory("text")})
    rank(judges[2], seed=8)
    assert shown(judges[0]) == shown(judges[1])
    assert shown(judges[0]) != shown(judges[2])
    assert any(ids != sorted(ids) for ids in shown(judges[0]))


def test_an_invalid_answer_is_asked_for_again_in_a_new_order() -> None:
    judge = Judge(lambda c: None if c.sample == 0 else largest(c))
    rankings = rank(judge)
    assert rankings[0].product_ids[:3] == ("p11", "p10", "p9")
    assert rankings[1] == Ranking("q1", ("p3", "p2", "p1"), calls=4, rounds=4, invalid=0)
    first, again = judge.batches[:2]
    assert [c.sample for c in again] == [1] * 5
    assert [{p.id for p in c.candidates} for c in first] == [
        {p.id for p in c.candidates} for c in again
    ]
    assert [c.candidates for c in first] != [c.candidates for c in again]


@pytest.mark.parametrize("max_reasks", [0, 1, 2])
def test_without_any_answer_the_retriever_decides(max_reasks: int) -> None:
    rankings = rank(Judge(lambda c: None), max_reasks=max_reasks)
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

    assert rank(Wild())[1].invalid == 2


def test_missing_inputs_are_named() -> None:
    algorithm = partial(knockout, top_k=1, set_size=2)
    judge = Judge(largest)
    with pytest.raises(DataError, match="query q1 has no memory"):
        rank_pools(QUERIES, {"q0": Memory()}, POOLS, CORPUS, judge, algorithm, seed=0)
    with pytest.raises(DataError, match="query q0 has no pool"):
        rank_pools(QUERIES, MEMORIES, {}, CORPUS, judge, algorithm, seed=0)
    corpus = {k: v for k, v in CORPUS.items() if k != "p3"}
    with pytest.raises(DataError, match="pool of query q1 holds product p3"):
        rank_pools(QUERIES[1:], MEMORIES, POOLS, corpus, judge, algorithm, seed=0)
