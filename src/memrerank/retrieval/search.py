"""Exact nearest products by inner product, in blocks: bounded memory, and ties that mean something.

Scores that agree to `DECIMALS` are ties. Score and tie-breaker together make one integer, the key,
so "the best k" is a strict order over integers: the best of two sets are the best of their bests,
and the cut into blocks cannot change the result.

On a CPU a tile is scored by one matrix product in float32. Once k products have been seen, the k-th
best bounds what can still enter, so a later tile costs one comparison per score and a look at the
few that pass. These are scored again in float64: their float32 scores differ in the last bits with
the shape of the block, and so would ties. (FAISS's own CPU search takes as long, without that, and
leaves ties to chance where they are cut.) Where FAISS sees a GPU, it proposes the few of a block.
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

PAIR_BYTES = 4 * 2**20  # of the vectors that are scored again at a time

SCALE = 10.0**DECIMALS
NOISE = 20  # units of the last decimal by which float32 scores of unit vectors may be off
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

    Memory besides the results: a block of at most `block_bytes` as float32 (on a CPU also of at
    most `TILE_ROWS` rows), 16 MB of its scores, and while candidates are picked from them at
    most some 250 MB (all products tie), whatever the numbers of queries and products.

    Args:
        queries: float32 [q, d].
        products: [n, d], float16 or float32, of about unit length as the queries are.
        order: [n], each of 0..n-1 once: of products that tie, the lowest comes first.
        k: products wanted per query, at least 1.
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
    parts = [best[:0]]
    for start in range(0, len(queries), TILE_QUERIES):
        tile, known = queries[start : start + TILE_QUERIES], best[start : start + TILE_QUERIES]
        scores = (torch.from_numpy(tile) @ torch.from_numpy(vectors).T).numpy()  # [t, b]
        passing = ~(scores <= _floor(known)[:, None])  # NaN passes, to be refused
        if np.count_nonzero(passing) * DENSE_SHARE > passing.size:
            keys = _keys(tile.astype(np.float64) @ vectors.astype(np.float64).T, ranks)
        else:
            flat = np.flatnonzero(passing)  # several times as fast as nonzero
            keys = _sparse_keys(tile, vectors, ranks, *np.divmod(flat, len(vectors)))
        parts.append(_best(known, keys))
    return np.concatenate(parts)


def _update_gpu(
    best: np.ndarray, queries: np.ndarray, vectors: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """What `_update` gives, by FAISS on a GPU; rows whose ties it cuts are done on the CPU."""
    width = min(best.shape[1] + TIE_MARGIN, len(vectors))
    scores, columns = faiss.knn_gpu(
        faiss.StandardGpuResources(), queries, vectors, width, metric=faiss.METRIC_INNER_PRODUCT
    )  # [q, width] each, best first
    rows, slots = np.nonzero(~(scores <= _floor(best)[:, None]))
    updated = _best(best, _sparse_keys(queries, vectors, ranks, rows, columns[rows, slots]))
    if width < len(vectors):  # what was cut off is no better than the last that was not
        cut = scores[:, -1] > _floor(updated)
        updated[cut] = _update(best[cut], queries[cut], vectors, ranks)
    return updated


def _floor(best: np.ndarray) -> np.ndarray:
    """A float32 score [q]; what may yet enter `best` [q, k] scores above it, noise included."""
    lowest = best.min(axis=1)
    units = (lowest >> ORDER_BITS).astype(np.float64)
    floor = (units - NOISE - np.abs(units) * 2**-20) / SCALE
    return np.where(lowest == LOWEST, -np.inf, floor).astype(np.float32)


def _sparse_keys(
    queries: np.ndarray,
    vectors: np.ndarray,
    ranks: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
) -> np.ndarray:
    """Keys [q, c] of the pairs of query `rows` [p] (sorted) and vector `columns` [p].

    Queries with fewer than c pairs are filled up with LOWEST.
    """
    step = max(1, PAIR_BYTES // (FLOAT_BYTES * queries.shape[1]))
    scores = np.empty(len(rows))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        np.einsum(
            "pd,pd->p",
            queries[rows[part]],
            vectors[columns[part]],
            dtype=np.float64,
            out=scores[part],
        )
    counts = np.bincount(rows, minlength=len(queries))  # [q]
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    keys = np.full((len(queries), counts.max(initial=0)), LOWEST)
    keys[rows, within] = _keys(scores, ranks[columns])
    return keys


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
    return np.partition(joined, joined.shape[1] - k, axis=1)[:, -k:]
