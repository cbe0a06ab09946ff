"""Exact nearest products by inner product, in blocks: bounded memory, and ties that mean something.

Scores that agree to `DECIMALS` are ties. Score and tie-breaker together make one integer, the key,
so "the best k" is a strict order over integers: the best of two sets are the best of their bests,
and the cut into blocks cannot change the result.

On a CPU the scores of a tile come from one matrix product. Once k products have been seen, the
k-th best bounds what can still enter, so a later tile costs one comparison per score and a
selection among the few that pass. (FAISS's own CPU search takes as long, and leaves ties to chance
where they are cut.) Where FAISS sees a GPU, it searches block by block.
"""

import faiss
import numpy as np
import torch

from memrerank.errors import DataError
from memrerank.retrieval.ranking import DECIMALS
from memrerank.retrieval.vectors import FLOAT_BYTES, VectorStore

BLOCK_BYTES = 512 * 2**20
TILE_QUERIES = 1024
TILE_ROWS = 4096  # with TILE_QUERIES, 16 MB of scores: what caches hold, and a bound on memory
DENSE_SHARE = 8  # beyond one score in so many that pass, picking them out costs more than it saves
TIE_MARGIN = 28  # products that a GPU fetches beyond k, so that ties at the edge show
GPU_WIDTH = 2048  # products that FAISS can fetch per query on a GPU

SCALE = np.float32(10**DECIMALS)
ORDER_BITS = 31
ORDER_MASK = 2**ORDER_BITS - 1
UNITS = 2**31  # bound on a score in units of the last decimal, so that a key fits an int64
LOWEST = np.iinfo(np.int64).min  # the key of no product


def nearest(
    queries: np.ndarray,
    products: VectorStore | np.ndarray,
    order: np.ndarray,
    k: int,
    block_bytes: int = BLOCK_BYTES,
) -> np.ndarray:
    """Places [q, min(k, n)] of the products with the highest inner product, best first.

    Memory besides the results: on a GPU a block of at most `block_bytes` as float32; on a CPU a
    block of at most `TILE_ROWS` rows and `block_bytes`, 16 MB of scores, and at worst (all scores
    tie) some 200 MB more while candidates are picked from them.

    Args:
        queries: float32 [q, d].
        products: [n, d], float16 or float32; scores are of their float32 values.
        order: [n], each of 0..n-1 once: of products that tie, the lowest comes first.
        k: products wanted per query.
        block_bytes: of product vectors as float32.

    Raises:
        DataError: a score is not finite or beyond 2,147; normalised vectors have none such.
    """
    store = products if isinstance(products, VectorStore) else VectorStore([products])
    k = min(k, store.rows)
    best = np.full((len(queries), k), LOWEST)  # keys, in no order
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if not np.isfinite(queries).all():
        raise DataError("a query's vector is not finite; run its encoder with dtype=float32")
    ranks = ORDER_MASK - np.asarray(order, dtype=np.int64)  # [n]: ties go to the highest
    on_gpu = faiss.get_num_gpus() > 0 and k + TIE_MARGIN <= GPU_WIDTH
    if not on_gpu:
        block_bytes = min(block_bytes, TILE_ROWS * store.dims * FLOAT_BYTES)
    update = _update_gpu if on_gpu else _update
    for start, block in store.blocks(block_bytes):
        vectors = block.astype(np.float32)  # [b, d]
        best = update(best, queries, vectors, ranks[start : start + len(block)])
    best = np.sort(best, axis=1)[:, ::-1]
    places = np.empty(store.rows, dtype=np.int64)
    places[order] = np.arange(store.rows)
    return places[ORDER_MASK - (best & ORDER_MASK)]


def _update(
    best: np.ndarray, queries: np.ndarray, vectors: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """The best keys [q, k] after one more block of vectors [b, d] with ranks [b]."""
    parts = []
    for start in range(0, len(queries), TILE_QUERIES):
        tile = slice(start, start + TILE_QUERIES)
        scores = _scores(queries[tile], vectors)
        parts.append(_best(best[tile], _candidates(scores, ranks, best[tile])))
    return np.concatenate(parts) if parts else best


def _scores(queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Inner products float32 [q, b]."""
    return (torch.from_numpy(queries) @ torch.from_numpy(vectors).T).numpy()


def _candidates(scores: np.ndarray, ranks: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Keys [q, c] of all scores [q, b] that may enter `best` [q, k], filled up with LOWEST."""
    passing = scores > _floor(best)[:, None]
    if np.count_nonzero(passing) * DENSE_SHARE > scores.size:
        return _keys(scores, ranks)
    flat = np.flatnonzero(passing)
    rows, columns = np.divmod(flat, scores.shape[1])
    counts = np.bincount(rows, minlength=len(scores))  # [q]
    within = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
    keys = np.full((len(scores), counts.max(initial=0)), LOWEST)
    keys[rows, within] = _keys(scores.reshape(-1)[flat], ranks[columns])
    return keys


def _floor(best: np.ndarray) -> np.ndarray:
    """A float32 score [q] that everything surpasses which may yet enter `best` [q, k]."""
    lowest = best.min(axis=1)
    units = (lowest >> ORDER_BITS).astype(np.float64)
    floor = (units - 1 - np.abs(units) * 2**-22) / SCALE  # below all that rounds to it
    return np.where(lowest == LOWEST, -np.inf, floor).astype(np.float32)


def _keys(scores: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Keys (int64) that order by the rounded score, then by rank; both broadcast."""
    units = np.rint(scores * SCALE)
    if not (np.abs(units) < UNITS).all():
        raise DataError(
            "a score is not finite or beyond 2,147: vectors must be finite and normalised; "
            "embed with encoder.dtype=float32 and vector_dtype=float32"
        )
    return (units.astype(np.int64) << ORDER_BITS) + ranks


def _best(best: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The k highest of keys [q, k] and keys [q, c], in no order."""
    k, joined = best.shape[1], np.concatenate([best, keys], axis=1)
    if keys.shape[1] == 0 or k == 0:
        return best
    return np.partition(joined, joined.shape[1] - k, axis=1)[:, -k:]


def _update_gpu(
    best: np.ndarray, queries: np.ndarray, vectors: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """What `_update` gives, by FAISS on a GPU; rows whose ties it cuts are done on the CPU."""
    k = best.shape[1]
    width = min(k + TIE_MARGIN, len(vectors))
    scores, places = faiss.knn_gpu(
        faiss.StandardGpuResources(), queries, vectors, width, metric=faiss.METRIC_INNER_PRODUCT
    )  # [q, width] each, best first
    keys = _keys(scores, ranks[places])
    updated = _best(best, keys)
    if width < len(vectors):  # what was cut off is no better than the last that was not
        cut = scores[:, -1] > _floor(updated)
        if cut.any():
            updated[cut] = _update(best[cut], queries[cut], vectors, ranks)
    return updated
