"""Knockout against sorting, and under judges that make no sense."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrerank.errors import ConfigError
from memrerank.rerank.algorithms import Rounds, knockout


def run(rounds: Rounds, judge: Callable[[tuple[str, ...]], str | None]) -> tuple[list[str], list]:
    """The order, and the rounds of sets that were asked on the way."""
    asked: list[list[tuple[str, ...]]] = []
    try:
        sets = next(rounds)
        while True:
            asked.append(sets)
            sets = rounds.send([judge(one) for one in sets])
    except StopIteration as stop:
        return stop.value, asked


def perfect(quality: dict[str, float]) -> Callable[[tuple[str, ...]], str]:
    return lambda one: max(one, key=quality.__getitem__)


def test_top_10_of_100_takes_52_calls_in_30_rounds() -> None:
    ids = [f"p{i}" for i in range(100)]
    quality = dict(zip(ids, random.Random(3).sample(range(100), 100), strict=True))
    order, asked = run(knockout(ids, top_k=10, set_size=5), perfect(quality))
    assert order[:10] == sorted(ids, key=quality.__getitem__, reverse=True)[:10]
    assert sorted(order) == sorted(ids)
    assert len(asked) <= 30
    assert sum(len(sets) for sets in asked) <= 52
    assert [len(sets) for sets in asked[:4]] == [20, 4, 1, 1]


def test_a_small_tournament_step_by_step() -> None:
    quality = {"a": 1, "b": 5, "c": 2, "d": 4, "e": 3}
    order, asked = run(knockout(list("abcde"), top_k=2, set_size=2), perfect(quality))
    assert asked == [
        [("a", "b"), ("c", "d")],  # e goes on unasked
        [("b", "d")],
        [("b", "e")],  # b wins
        [("a", "d")],  # its path: a is alone, then meets d,
        [("d", "e")],  # and the winner e
    ]
    # e lost in the final; a and c hold the lowest level, in the retriever's order
    assert order == ["b", "d", "e", "a", "c"]


def test_sets_without_an_answer_follow_the_retriever() -> None:
    ids = [f"p{i}" for i in range(23)]
    order, _ = run(knockout(ids, top_k=23, set_size=5), lambda one: None)
    assert order == ids


@given(st.integers(0, 60), st.integers(1, 70), st.integers(2, 7), st.integers(0, 10**6))
def test_a_perfect_judge_gives_the_sorted_top(n: int, top_k: int, set_size: int, seed: int) -> None:
    ids = [f"p{i}" for i in range(n)]
    quality = dict(zip(ids, random.Random(seed).sample(range(n), n), strict=True))
    order, asked = run(knockout(ids, top_k=top_k, set_size=set_size), perfect(quality))
    best = sorted(ids, key=quality.__getitem__, reverse=True)
    assert order[:top_k] == best[:top_k]
    assert sorted(order) == sorted(ids)
    levels = math.ceil(round(math.log(n, set_size), 9)) if n > 1 else 0
    assert len(asked) <= levels * min(top_k, max(n, 1))


@given(st.integers(0, 40), st.integers(1, 45), st.integers(2, 6), st.randoms(use_true_random=False))
def test_any_judge_gives_a_permutation(
    n: int, top_k: int, set_size: int, source: random.Random
) -> None:
    ids = [f"p{i}" for i in range(n)]

    def judge(one: tuple[str, ...]) -> str | None:
        return source.choice([*one, None, "a product that nobody asked about"])

    order, asked = run(knockout(ids, top_k=top_k, set_size=set_size), judge)
    assert sorted(order) == sorted(ids)
    for sets in asked:
        assert sets
        shown = [product_id for one in sets for product_id in one]
        assert len(shown) == len(set(shown))
        assert all(2 <= len(one) <= set_size for one in sets)


@pytest.mark.parametrize(
    ("top_k", "set_size", "message"),
    [(0, 5, "ranking.top_k=0"), (10, 1, "ranking.set_size=1")],
)
def test_settings_that_cannot_work(top_k: int, set_size: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        next(knockout(["a", "b"], top_k=top_k, set_size=set_size))


def test_a_repeated_product_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        next(knockout(["a", "b", "a"], top_k=1, set_size=2))
