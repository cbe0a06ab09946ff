"""Ranking by scores, for judges that have them."""

import math
from collections.abc import Sequence

from memrerank.rerank.algorithms.common import Rounds, check, groups


def pointwise(ids: Sequence[str], *, top_k: int, set_size: int, until: str | None = None) -> Rounds:
    """Scores every product once, in one round, and sorts by score.

    Equal scores, and products without one, stay in the retriever's order; those without one are
    last. The order is the same for every `top_k`.

    Args:
        ids: distinct product ids, in the retriever's order.
        top_k: at least 1; changes nothing.
        set_size: how many products a call scores; at least 2. A lone product at the end is scored
            together with its neighbour.
        until: changes nothing.

    Raises:
        ConfigError: `top_k` or `set_size` is too small.
        ValueError: an id is repeated.
    """
    check(ids, top_k, set_size)
    if len(ids) < 2:
        return list(ids)
    sets = groups(ids, set_size)
    if len(sets[-1]) == 1:
        sets[-1] = (sets[-2][-1], *sets[-1])
        if len(sets[-2]) > 2:
            sets[-2] = sets[-2][:-1]
    answers = yield sets
    score = dict.fromkeys(ids, -math.inf)
    for one, scores in zip(sets, answers, strict=True):
        if scores is not None:
            score |= {i: s for i, s in zip(one, scores, strict=True) if not math.isnan(s)}
    return sorted(ids, key=lambda product_id: -score[product_id])  # stable: the retriever's order
