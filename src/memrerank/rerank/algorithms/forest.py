"""Selection from a partial order: few comparisons in few rounds, since sets are played at once."""

from collections.abc import Sequence

from memrerank.rerank.algorithms.common import Rounds, Sets, check, groups, positions, winner_of
from memrerank.rerank.algorithms.known import Known


def forest(ids: Sequence[str], *, top_k: int, set_size: int, until: str | None = None) -> Rounds:
    """Keeps who beat whom; those that nobody is known to be above meet, many sets at once.

    When one such root is left it takes the next place, and those that only it was above are roots
    again. Roots with few products below them meet first, and no more sets are played than must be.
    Sets that are not full take in products that are likely to be roots soon and of which nothing is
    known against the others. With a perfect judge the first `top_k` are exact: some 51 comparisons
    in 21 rounds for 10 of 100 in sets of 5. The rest follow by how many are known to be above them,
    then in the retriever's order. A set without a valid answer goes to the candidate that the
    retriever put first.

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
    places = min(top_k, len(ids))
    stop = None if until is None else position.get(until)
    while len(placed) < places and stop not in placed:
        above = {
            one: known.count_above(one, placed) for one in range(len(ids)) if one not in placed
        }
        roots = [one for one, count in above.items() if count == 0]
        if len(roots) == 1:
            placed.append(roots[0])
            continue
        roots.sort(key=lambda one: (known.below[one].bit_count(), one))
        spare = [one for one, count in above.items() if 0 < count < places - len(placed)]
        spare.sort(key=lambda one: (above[one], -known.below[one].bit_count(), one))
        sets = [_filled(one, spare, known, set_size) for one in _meetings(roots, set_size)]
        shown: Sets = [tuple(ids[one] for one in members) for members in sets]
        answers = yield shown
        for members, named, answer in zip(sets, shown, answers, strict=True):
            winner = position[winner_of(answer, named, position)]
            known.add_win(winner, [one for one in members if one != winner])
    rest = [one for one in range(len(ids)) if one not in placed]
    rest.sort(key=lambda one: (known.count_above(one, placed), one))
    return [ids[one] for one in placed + rest]


def _meetings(roots: Sequence[int], set_size: int) -> list[list[int]]:
    """Which roots meet in this round, given from the weakest on.

    Where two rounds can find the last root, the first of them leaves just as many as fit into the
    set of the second.
    """
    playing = roots
    if set_size < len(roots) <= set_size**2:
        beaten = len(roots) - set_size
        playing = roots[: beaten + -(-beaten // (set_size - 1))]
    sets = [list(one) for one in groups(playing, set_size)]
    if len(sets) > 1 and len(sets[-1]) == 1:
        if set_size > 2 and len(roots) <= set_size**2:
            sets[-1].append(sets[-2].pop())
        else:
            sets.pop()  # it waits for the next round
    return sets


def _filled(members: list[int], spare: list[int], known: Known, set_size: int) -> list[int]:
    """A set with whom of `spare` it has room for, who then are spare no more."""
    for one in list(spare):
        if len(members) == set_size:
            break
        if not any(known.related(one, member) for member in members):
            members.append(one)
            spare.remove(one)
    return members
