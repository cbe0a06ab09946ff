"""Selection from a forest: few rounds, since all sets of a round are played at once."""

from collections.abc import Sequence

from memrerank.rerank.algorithms.common import Rounds, Sets, check, groups, positions, winner_of


def forest(ids: Sequence[str], *, top_k: int, set_size: int, until: str | None = None) -> Rounds:
    """Keeps everyone below the product that beat them; those that nobody beat play each other.

    The roots of the forest are the products without a winner over them. They meet in sets, all
    sets of a round at once, and the beaten of each set become children of its winner. The last
    root takes the next place, and its children are roots again. Roots with few products below
    them meet first, so that a strong one is not asked of needlessly often, and no more sets are
    played than must be. With a perfect judge the first `top_k` are exact: some 54 comparisons in 21
    rounds for 10 of 100 in sets of 5. The rest follow by how many are known to be above them, then
    in the retriever's order. A set without a valid answer goes to the candidate that the retriever
    put first.

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
    children: dict[str, list[str]] = {product_id: [] for product_id in ids}
    weight = dict.fromkeys(ids, 1)  # a product and all below it
    roots = list(ids)
    order: list[str] = []
    while roots and len(order) < top_k and until not in order:
        if len(roots) == 1:
            order.append(roots[0])
            roots = children[roots[0]]
            continue
        sets = _sets(sorted(roots, key=lambda one: (weight[one], position[one])), set_size)
        answers = yield sets
        for one, answer in zip(sets, answers, strict=True):
            winner = winner_of(answer, one, position)
            beaten = [other for other in one if other != winner]
            children[winner] += beaten
            weight[winner] += sum(weight[other] for other in beaten)
            roots = [root for root in roots if root not in beaten]
    return order + _others(roots, children, position)


def _sets(roots: Sequence[str], set_size: int) -> Sets:
    """The sets of one round, `roots` given from the weakest on.

    Where two rounds can find the last root, the first of them leaves just as many as fit into the
    set of the second.
    """
    if len(roots) > set_size**2:
        return [one for one in groups(roots, set_size) if len(one) > 1]
    if len(roots) <= set_size:
        return [tuple(roots)]
    beaten = len(roots) - set_size
    count = -(-beaten // (set_size - 1))
    playing = roots[: beaten + count]
    return [tuple(playing[start::count]) for start in range(count)]


def _others(
    roots: Sequence[str], children: dict[str, list[str]], position: dict[str, int]
) -> list[str]:
    """Those without a place, by how many winners are above them, then as the retriever had it."""
    found: list[str] = []
    level = list(roots)
    while level:
        found += sorted(level, key=position.__getitem__)
        level = [child for one in level for child in children[one]]
    return found
