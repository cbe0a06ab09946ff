"""A knockout tournament with path replay: few comparisons."""

from collections.abc import Generator, Sequence
from itertools import pairwise

from memrerank.rerank.algorithms.common import Rounds, Sets, Winners, check


def knockout(ids: Sequence[str], *, top_k: int, set_size: int, until: str | None = None) -> Rounds:
    """A knockout tournament whose winners are taken out one by one.

    The pool is cut into sets of `set_size` in the retriever's order; winners meet winners until
    one is left. It takes the next place, and only the sets on its path are played again without
    it, up to the top. With a perfect judge the first `top_k` are exact: for 10 of 100 in sets of
    5, 25 + 9 * 3 = 52 comparisons in 3 + 9 * 3 = 30 rounds. The rest follow by the highest level
    that they hold in the tree, then in the retriever's order. A set without a valid answer goes
    to the candidate that the retriever put first.

    Args:
        ids: distinct product ids, in the retriever's order.
        top_k: how many places are played for; at least 1.
        set_size: how many candidates a comparison shows; at least 2.
        until: ends the ranking once this product has its place.

    Raises:
        ConfigError: `top_k` or `set_size` is too small.
        ValueError: an id is repeated.
    """
    check(ids, top_k, set_size)
    if not ids:
        return []
    levels: list[list[str | None]] = [list(ids)]  # the winners of each level play on the next
    while len(levels[-1]) > 1:
        last = levels[-1]
        sets = [last[start : start + set_size] for start in range(0, len(last), set_size)]
        levels.append((yield from _play(sets)))

    places = min(top_k, len(ids))
    position = {product_id: index for index, product_id in enumerate(ids)}
    order: list[str] = []
    while (champion := levels[-1][0]) is not None:
        order.append(champion)
        if len(order) == places or champion == until:
            break
        yield from _replay(levels, position[champion], set_size)
    return order + _others(levels, set(order))


def _replay(
    levels: list[list[str | None]], index: int, set_size: int
) -> Generator[Sets, Winners, None]:
    """Takes out the product at `index` of the lowest level and plays its path again, in place."""
    levels[0][index] = None
    for below, level in pairwise(levels):
        index //= set_size
        (level[index],) = yield from _play([below[index * set_size : (index + 1) * set_size]])


def _play(sets: list[list[str | None]]) -> Generator[Sets, Winners, list[str | None]]:
    """The winner of each set, after one round for those that need a comparison.

    None marks a place that nobody holds. A lone candidate wins unasked.
    """
    present = [tuple(product_id for product_id in one if product_id is not None) for one in sets]
    asked = [one for one in present if len(one) > 1]
    answers = iter((yield asked) if asked else [])
    winners: list[str | None] = []
    for one in present:
        winner = next(answers) if len(one) > 1 else None
        fallback = one[0] if one else None
        winners.append(winner if winner in one else fallback)
    return winners


def _others(levels: list[list[str | None]], placed: set[str]) -> list[str]:
    """Those without a place, by the highest level that they hold, then as the retriever had it."""
    held = {
        product_id: height
        for height, level in enumerate(levels)
        for product_id in level
        if product_id is not None and product_id not in placed
    }
    return sorted(held, key=lambda product_id: -held[product_id])  # stable: the retriever's order
