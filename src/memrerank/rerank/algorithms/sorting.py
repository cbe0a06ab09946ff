"""Setwise heapsort and bubblesort (Zhuang et al. 2024), for comparison with published results.

Published code takes an answer that it cannot read for the first candidate's win and asks about
sets of one; here neither happens.
"""

from collections.abc import Generator, Sequence

from memrerank.rerank.algorithms.common import (
    Rounds,
    Sets,
    Winners,
    check,
    positions,
    winner_of,
)

Asking = Generator[Sets, Winners, None]


def heapsort(ids: Sequence[str], *, top_k: int, set_size: int, until: str | None = None) -> Rounds:
    """A heap in which every node has `set_size` - 1 children; its root is taken out `top_k` times.

    One comparison shows a node and its children, and one follows the other: 61 or so in as many
    rounds for 10 of 100 in sets of 5. With a perfect judge the first `top_k` are exact. The rest
    follow by their level in the heap, then in the retriever's order.

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
    position = positions(ids)
    arity = set_size - 1
    heap = list(ids)
    order: list[str] = []
    for node in reversed(range((len(heap) - 2) // arity + 1)):
        yield from _sift(heap, node, arity, position)
    while heap:
        order.append(heap[0])
        if len(order) == top_k or heap[0] == until:
            return order + _by_level(heap, arity, position)[1:]
        last = heap.pop()
        if heap:
            heap[0] = last
            yield from _sift(heap, 0, arity, position)
    return order


def _sift(heap: list[str], node: int, arity: int, position: dict[str, int]) -> Asking:
    """Lets the product at `node` sink until it beats its children."""
    while (first := node * arity + 1) < len(heap):
        family = [node, *range(first, min(first + arity, len(heap)))]
        one = tuple(heap[place] for place in family)
        (answer,) = yield [one]
        best = family[one.index(winner_of(answer, one, position))]
        if best == node:
            return
        heap[node], heap[best] = heap[best], heap[node]
        node = best


def _by_level(heap: Sequence[str], arity: int, position: dict[str, int]) -> list[str]:
    found: list[str] = []
    start, width = 0, 1
    while start < len(heap):
        found += sorted(heap[start : start + width], key=position.__getitem__)
        start, width = start + width, width * arity
    return found


def bubblesort(
    ids: Sequence[str], *, top_k: int, set_size: int, until: str | None = None
) -> Rounds:
    """For each place a window slides from the pool's end up to it, its winner moved to the front.

    Neighbouring windows share one product, so that the best one travels all the way. With a
    perfect judge the first `top_k` are exact, for 240 comparisons, one after the other, for 10 of
    100 in sets of 5. The rest keep the order in which the windows left them.

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
    position = positions(ids)
    order = list(ids)
    for place in range(min(top_k, len(order))):
        end = len(order)
        while end - place > 1:
            start = max(place, end - set_size)
            one = tuple(order[start:end])
            (answer,) = yield [one]
            order.insert(start, order.pop(start + one.index(winner_of(answer, one, position))))
            end = start + 1
        if order[place] == until:
            break
    return order
