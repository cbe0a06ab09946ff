"""The best products by score, with ties broken by product id."""

from collections.abc import Sequence

import numpy as np

DECIMALS = 6  # scores that agree to this many decimals are ties: float32 noise decides nothing
GROUP = 64  # scores per group whose maximum bounds the k-th best; fewer find a closer bound


def id_order(ids: Sequence[str]) -> np.ndarray:
    """The place of each id among the sorted ids [n], for use as a tie-breaker."""
    order = np.empty(len(ids), dtype=np.int64)
    order[np.argsort(np.asarray(ids), kind="stable")] = np.arange(len(ids))
    return order


def best(scores: np.ndarray, order: np.ndarray, k: int) -> np.ndarray:
    """Indices of the `k` highest of `scores` [n], best first, ties by lowest `order` [n].

    Linear in n: only what scores about as much as the k-th best is rounded, and of the products
    that tie for the last places (all that share no word with a query, say) none is sorted.

    Args:
        scores: finite floats.
        order: a different integer for each product.
        k: products wanted; more than n gives all n.
    """
    k = min(k, len(scores))
    if k < 1:
        return np.empty(0, dtype=np.int64)
    # Rounding keeps the order, so the k-th best rounded score is the k-th best score, rounded.
    threshold = np.round(_kth_best(scores, k), DECIMALS)
    near = np.flatnonzero(scores >= _below(threshold))
    rounded = np.round(scores[near], DECIMALS)
    above = rounded > threshold
    ties = near[rounded == threshold]
    places = k - np.count_nonzero(above)
    if len(ties) > places:
        ties = ties[np.argpartition(order[ties], places - 1)[:places]]
    chosen = np.concatenate([near[above], ties])
    values = np.concatenate([rounded[above], np.full(len(ties), threshold)])
    return chosen[np.lexsort((order[chosen], -values))]


def _kth_best(scores: np.ndarray, k: int) -> np.floating:
    """The k-th highest of `scores` [n], with 1 <= k <= n.

    Cut into groups, the k-th highest group maximum is a bound: k scores reach it. It sorts out
    nearly all scores in two passes, where `np.partition` takes ten times as long on scores that are
    zero for the most part.
    """
    groups = len(scores) // GROUP
    if groups >= k:
        maxima = scores[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
        bound = np.partition(maxima, groups - k)[groups - k]
        scores = scores[scores > bound]
        if len(scores) < k:
            return bound
    return np.partition(scores, len(scores) - k)[len(scores) - k]


def _below(threshold: np.floating) -> np.floating:
    """A score, in the dtype of the threshold, below which nothing rounds to the threshold."""
    return threshold - threshold.dtype.type(10.0**-DECIMALS) - 4 * np.spacing(np.abs(threshold))
