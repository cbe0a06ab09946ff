"""Ranking algorithms against sorting, and under judges that make no sense."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrerank.errors import ConfigError
from memrerank.rerank.algorithms import (
    Algorithm,
    Rounds,
    bubblesort,
    forest,
    full_order,
    heapsort,
    knockout,
    pointwise,
)

Judge = Callable[[tuple[str, ...]], Any]

CHOOSING = [knockout, forest, heapsort, bubblesort]
ALL = [*CHOOSING, full_order, pointwise]


def run(rounds: Rounds, judge: Judge) -> tuple[list[str], list[list[tuple[str, ...]]]]:
    """The order, and the rounds of sets that were asked on the way."""
    asked: list[list[tuple[str, ...]]] = []
    try:
        sets = next(rounds)
        while True:
            asked.append(sets)
            assert len(asked) < 10_000, "it does not end"
            sets = rounds.send([judge(one) for one in sets])
    except StopIteration as stop:
        return stop.value, asked


def consistent(algorithm: Algorithm, quality: dict[str, float]) -> Judge:
    """A judge by quality, equals by id, that answers what the algorithm asks."""

    def better(product_id: str) -> tuple[float, str]:
        return quality[product_id], product_id

    if algorithm is full_order:
        return lambda one: tuple(sorted(one, key=better, reverse=True))
    if algorithm is pointwise:
        return lambda one: tuple(quality[product_id] for product_id in one)
    return lambda one: max(one, key=better)


def senseless(algorithm: Algorithm, source: random.Random) -> Judge:
    """A judge that draws its answers, and now and then has none, or one that is none."""

    def judge(one: tuple[str, ...]) -> Any:
        if source.random() < 0.2:
            return None
        if algorithm is full_order:
            return (
                tuple(source.choices(one, k=len(one)))
                if source.random() < 0.2
                else tuple(source.sample(one, len(one)))
            )
        if algorithm is pointwise:
            return tuple(source.choice([0.5, math.nan, source.random()]) for _ in one)
        return source.choice([*one, "a product that nobody asked about"])

    return judge


def shuffled(n: int, seed: int, levels: int | None = None) -> tuple[list[str], dict[str, float]]:
    """Ids in the retriever's order and their qualities; few `levels` make ties."""
    source = random.Random(seed)
    ids = [f"p{i:02}" for i in source.sample(range(n), n)]
    quality = [float(source.randrange(levels)) if levels else source.random() for _ in ids]
    return ids, dict(zip(ids, quality, strict=True))


def best_first(algorithm: Algorithm, ids: Sequence[str], quality: dict[str, float]) -> list[str]:
    if algorithm is pointwise:  # equal scores stay as the retriever had them
        return sorted(ids, key=lambda i: -quality[i])
    return sorted(ids, key=lambda i: (quality[i], i), reverse=True)


sizes = st.integers(0, 45)
places = st.integers(1, 50)
set_sizes = st.integers(2, 7)
seeds = st.integers(0, 10**6)


@pytest.mark.parametrize("algorithm", ALL)
@settings(max_examples=120, deadline=None)
@given(sizes, places, set_sizes, seeds, st.sampled_from([None, 1, 3]))
def test_a_consistent_judge_gives_the_sorted_top(
    algorithm: Algorithm, n: int, top_k: int, set_size: int, seed: int, levels: int | None
) -> None:
    ids, quality = shuffled(n, seed, levels)
    rounds = algorithm(ids, top_k=top_k, set_size=set_size)
    order, asked = run(rounds, consistent(algorithm, quality))
    assert order[:top_k] == best_first(algorithm, ids, quality)[:top_k]
    assert sorted(order) == sorted(ids)
    check_sets(asked, set_size, ids)


def check_sets(asked: list[list[tuple[str, ...]]], set_size: int, ids: Sequence[str]) -> None:
    for sets in asked:
        assert sets
        for one in sets:
            assert 2 <= len(one) <= set_size
            assert len(set(one)) == len(one)
            assert set(one) <= set(ids)


@pytest.mark.parametrize("algorithm", ALL)
@settings(max_examples=120, deadline=None)
@given(sizes, places, set_sizes, st.randoms(use_true_random=False))
def test_any_judge_gives_a_permutation(
    algorithm: Algorithm, n: int, top_k: int, set_size: int, source: random.Random
) -> None:
    ids = [f"p{i}" for i in range(n)]
    order, asked = run(algorithm(ids, top_k=top_k, set_size=set_size), senseless(algorithm, source))
    assert sorted(order) == sorted(ids)
    check_sets(asked, set_size, ids)


@pytest.mark.parametrize("algorithm", ALL)
@settings(max_examples=120, deadline=None)
@given(st.integers(1, 45), places, set_sizes, seeds, st.data())
def test_stopping_early_changes_no_place_that_was_given(
    algorithm: Algorithm, n: int, top_k: int, set_size: int, seed: int, data: st.DataObject
) -> None:
    ids, quality = shuffled(n, seed)
    until = data.draw(st.sampled_from(ids))
    judge = consistent(algorithm, quality)
    whole, all_asked = run(algorithm(ids, top_k=top_k, set_size=set_size), judge)
    early, asked = run(algorithm(ids, top_k=top_k, set_size=set_size, until=until), judge)
    given_places = min(whole.index(until) + 1, top_k)
    assert early[:given_places] == whole[:given_places]
    assert sorted(early) == sorted(ids)
    assert asked == all_asked[: len(asked)]


@pytest.mark.parametrize("algorithm", [*CHOOSING, full_order])
def test_stopping_early_saves_comparisons(algorithm: Algorithm) -> None:
    ids, quality = shuffled(45, 1)
    judge = consistent(algorithm, quality)
    first = best_first(algorithm, ids, quality)[0]
    _, whole = run(algorithm(ids, top_k=10, set_size=5), judge)
    _, early = run(algorithm(ids, top_k=10, set_size=5, until=first), judge)
    _, alone = run(algorithm(ids, top_k=1, set_size=5), judge)
    assert early == alone
    assert len(early) < len(whole)


@pytest.mark.parametrize("algorithm", ALL)
def test_sets_without_an_answer_follow_the_retriever(algorithm: Algorithm) -> None:
    ids = [f"p{i}" for i in range(23)]
    order, _ = run(algorithm(ids, top_k=23, set_size=5), lambda one: None)
    assert order == ids


@pytest.mark.parametrize("algorithm", ALL)
def test_pools_of_none_and_one_need_no_judge(algorithm: Algorithm) -> None:
    for ids in ([], ["a"]):
        assert run(algorithm(ids, top_k=3, set_size=5), lambda one: 1 / 0) == (ids, [])


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize(
    ("top_k", "set_size", "message"),
    [(0, 5, "ranking.top_k=0"), (10, 1, "ranking.set_size=1")],
)
def test_settings_that_cannot_work(
    algorithm: Algorithm, top_k: int, set_size: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        next(algorithm(["a", "b"], top_k=top_k, set_size=set_size))


@pytest.mark.parametrize("algorithm", ALL)
def test_a_repeated_product_is_refused(algorithm: Algorithm) -> None:
    with pytest.raises(ValueError, match="twice"):
        next(algorithm(["a", "b", "a"], top_k=1, set_size=2))


# calls and rounds of a perfect judge for 10 of 100: the most in 20 random orders
@pytest.mark.parametrize(
    ("algorithm", "calls", "rounds"),
    [(knockout, 52, 30), (forest, 60, 22), (full_order, 35, 13), (pointwise, 20, 1)],
)
def test_what_the_top_10_of_100_takes(algorithm: Algorithm, calls: int, rounds: int) -> None:
    for seed in range(20):
        ids, quality = shuffled(100, seed)
        order, asked = run(algorithm(ids, top_k=10, set_size=5), consistent(algorithm, quality))
        assert order[:10] == best_first(algorithm, ids, quality)[:10]
        assert len(asked) <= rounds
        assert sum(len(sets) for sets in asked) <= calls


# ---------------------------------------------------------------- step by step


def test_a_small_knockout_step_by_step() -> None:
    quality = {"a": 1, "b": 5, "c": 2, "d": 4, "e": 3}
    judge = consistent(knockout, quality)
    order, asked = run(knockout(list("abcde"), top_k=2, set_size=2), judge)
    assert asked == [
        [("a", "b"), ("c", "d")],  # e goes on unasked
        [("b", "d")],
        [("b", "e")],  # b wins
        [("a", "d")],  # its path: a is alone, then meets d,
        [("d", "e")],  # and the winner e
    ]
    # e lost in the final; a and c hold the lowest level, in the retriever's order
    assert order == ["b", "d", "e", "a", "c"]


def test_a_small_forest_step_by_step() -> None:
    quality = {"a": 1, "b": 5, "c": 2, "d": 4, "e": 3}
    order, asked = run(forest(list("abcde"), top_k=2, set_size=3), consistent(forest, quality))
    assert asked == [
        [("a", "b", "c")],  # leaves three for the next round
        [("d", "e", "b")],  # b is first; a, c, d, e are roots again
        [("a", "c")],  # leaves three
        [("d", "e", "c")],
    ]
    # e and c lost to d, and a to c
    assert order == ["b", "d", "c", "e", "a"]


def test_an_order_is_used_for_all_that_follows_from_it() -> None:
    quality = {"a": 1, "b": 5, "c": 2, "d": 4, "e": 3, "f": 0}
    judge = consistent(full_order, quality)
    order, asked = run(full_order(list("abcdef"), top_k=4, set_size=3), judge)
    assert asked == [
        [("a", "b", "c"), ("d", "e", "f")],  # b c a and d e f
        [("b", "d", "c")],  # their firsts, and one of whom something is still open: b d c
        [("c", "e", "a")],  # c lost to b and d, e to d: e c a
        [("c", "f", "a")],
    ]
    assert order == ["b", "d", "e", "c", "a", "f"]


def test_below_the_top_of_orders_come_those_with_fewest_above_first() -> None:
    quality = {"a": 1, "b": 5, "c": 2, "d": 4, "e": 3, "f": 0}
    judge = consistent(full_order, quality)
    order, asked = run(full_order(list("abcdef"), top_k=1, set_size=3), judge)
    assert asked == [[("a", "b", "c"), ("d", "e", "f")], [("b", "d", "c")]]
    # known: b d c a and d e f; of those left nobody is above d, one above c and e, two above a, f
    assert order == ["b", "d", "c", "e", "a", "f"]


def test_an_order_that_contradicts_what_is_known_changes_nothing_there() -> None:
    told = {
        ("a", "b", "c"): ("a", "b", "c"),
        ("d", "e", "f"): ("d", "e", "f"),
        ("a", "d", "b"): ("b", "d", "a"),  # but a is above b: it stays there, and b above d is new
    }
    order, asked = run(
        full_order(list("abcdef"), top_k=2, set_size=3), lambda one: told.get(one, one)
    )
    assert asked[1] == [("a", "d", "b")]
    assert order[:2] == ["a", "b"]


def test_a_heap_sinks_the_last_product_after_each_place() -> None:
    quality = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    order, asked = run(heapsort(list("abcde"), top_k=2, set_size=3), consistent(heapsort, quality))
    assert asked == [
        [("b", "d", "e")],  # e b: heap a e c d b
        [("a", "e", "c")],  # e a c d b
        [("a", "d", "b")],  # e d c a b
        [("b", "d", "c")],  # e is out, b on top: d b c a
        [("b", "a")],
    ]
    assert order == ["e", "d", "b", "c", "a"]


def test_below_the_top_of_a_heap_each_level_is_in_the_retrievers_order() -> None:
    quality = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    order, _ = run(heapsort(list("abcde"), top_k=1, set_size=3), consistent(heapsort, quality))
    assert order == ["e", "c", "d", "a", "b"]  # the heap is e d c a b


def test_a_window_moves_its_winner_to_the_front() -> None:
    quality = {"a": 1, "b": 2, "c": 3, "d": 4}
    judge = consistent(bubblesort, quality)
    order, asked = run(bubblesort(list("abcd"), top_k=2, set_size=3), judge)
    assert asked == [[("b", "c", "d")], [("a", "d")], [("a", "b", "c")]]
    assert order == ["d", "c", "a", "b"]


def test_scores_sort_and_a_lone_product_is_not_scored_alone() -> None:
    quality = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 3.0}
    order, asked = run(pointwise(list("abcd"), top_k=1, set_size=3), consistent(pointwise, quality))
    assert asked == [[("a", "b"), ("c", "d")]]
    assert order == ["b", "d", "c", "a"]
    order, _ = run(pointwise(list("abcd"), top_k=1, set_size=3), lambda one: (math.nan, 0.5))
    assert order == ["b", "d", "a", "c"]


def test_products_without_a_score_are_last_even_below_negative_ones() -> None:
    scores: dict[tuple[str, ...], Any] = {("a", "b"): None, ("c", "d"): (-2.0, -1.0)}
    order, _ = run(pointwise(list("abcd"), top_k=1, set_size=2), scores.__getitem__)
    assert order == ["d", "c", "a", "b"]
