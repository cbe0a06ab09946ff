"""Ranking with a judge that puts all candidates of a set in order, not only one first."""

from collections.abc import Sequence

from memrerank.rerank.algorithms.common import Rounds, Sets, check, groups, positions
from memrerank.rerank.algorithms.known import Known


def full_order(
    ids: Sequence[str], *, top_k: int, set_size: int, until: str | None = None
) -> Rounds:
    """Draws every conclusion that the orders allow, and asks for what is still open.

    What an order says of two products holds for all that are known to be above the one and below
    the other. Products that nobody is known to be above play each other; sets that are not full
    take in those of which most is still to be learned. When one is left it takes the next place.
    With a perfect judge the first `top_k` are exact: some 33 comparisons in 11 rounds for 10 of 100
    in sets of 5. The rest follow by how many are known to be above them, then in the retriever's
    order. A set without a valid answer counts as ordered by the retriever; an answer that
    contradicts what is known changes nothing there.

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
    known = Known(len(ids))
    placed: list[int] = []
    stop = None if until is None else position.get(until)
    while len(placed) < min(top_k, len(ids)) and stop not in placed:
        open_ones = [one for one in range(len(ids)) if one not in placed]
        roots = [one for one in open_ones if known.count_above(one, placed) == 0]
        if len(roots) == 1:
            placed.append(roots[0])
            continue
        sets = _sets(roots, open_ones, placed, known, set_size)
        shown: Sets = [tuple(ids[one] for one in members) for members in sets]
        answers = yield shown
        for named, answer in zip(shown, answers, strict=True):
            valid = answer is not None and sorted(answer) == sorted(named)
            best_first = answer if valid else sorted(named, key=position.__getitem__)
            known.add([position[product_id] for product_id in best_first])
    rest = [one for one in range(len(ids)) if one not in placed]
    rest.sort(key=lambda one: (known.count_above(one, placed), one))
    return [ids[one] for one in placed + rest]


def _sets(
    roots: Sequence[int],
    open_ones: Sequence[int],
    placed: Sequence[int],
    known: Known,
    set_size: int,
) -> list[list[int]]:
    """The sets of one round: the roots, and who else is worth asking about."""
    sets = [list(one) for one in groups(roots, set_size)]
    spare = [one for one in open_ones if one not in roots]
    spare.sort(key=lambda one: (known.count_above(one, placed), one))
    for members in sets:
        while len(members) < set_size and spare:
            unknown = [sum(not known.related(one, member) for member in members) for one in spare]
            if not max(unknown):
                break
            members.append(spare.pop(unknown.index(max(unknown))))
    return [members for members in sets if len(members) > 1]
