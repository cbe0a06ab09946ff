"""The best products by score, with ties broken by product id."""

from collections.abc import Sequence

import numpy as np

DECIMALS = 6  # scores that agree to this many decimals are ties: float32 noise decides nothing


def id_order(ids: Sequence[str]) -> np.ndarray:
    """The place of each id among the sorted ids [n], for use as a tie-breaker."""
    order = np.empty(len(ids), dtype=np.int64)
    order[np.argsort(np.asarray(ids), kind="stable")] = np.arange(len(ids))
    return order


def best(scores: np.ndarray, order: np.ndarray, k: int) -> np.ndarray:
    """Indices of the `k` highest of `scores` [n], best first, ties by lowest `order` [n]."""
    rounded = np.round(scores, DECIMALS)
    k = min(k, len(rounded))
    threshold = np.partition(rounded, len(rounded) - k)[len(rounded) - k]
    candidates = np.flatnonzero(rounded >= threshold)
    ranked = np.lexsort((order[candidates], -rounded[candidates]))
    return candidates[ranked[:k]]
