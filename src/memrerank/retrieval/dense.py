"""Dense retrieval: exact inner product over encoded products (FAISS)."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np

from memrerank.retrieval.ranking import DECIMALS, id_order
from memrerank.schema import Pool, Product, Query
from memrerank.storage import atomic_path, fingerprint

log = logging.getLogger(__name__)

TIE_MARGIN = 28  # products fetched beyond k, so that ties at its edge can be told apart
GPU_WIDTH = 2048  # products that FAISS can fetch per query on a GPU


class Encoder(Protocol):
    """What dense retrieval needs of an encoder: L2-normalised float32 vectors [n, d]."""

    @property
    def recipe(self) -> Mapping[str, Any]: ...

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray: ...

    def encode_products(self, texts: Sequence[str]) -> np.ndarray: ...


class DenseRetriever:
    """Ranks products by the inner product of their vectors with the query's.

    Args:
        encoder: makes the vectors.
        name: what the pools are called after.
        held_out: evaluation only, never training.
        cache_dir: where product vectors are kept for later runs; None keeps none.
    """

    def __init__(
        self, encoder: Encoder, name: str, held_out: bool = False, cache_dir: Path | None = None
    ) -> None:
        self.encoder = encoder
        self.name = name
        self.held_out = held_out
        self.cache_dir = cache_dir

    def settings(self) -> dict[str, Any]:
        """All that the pools depend on besides products and queries."""
        return {"kind": "dense", **self.encoder.recipe}

    def search(self, corpus: Mapping[str, Product], queries: Sequence[Query], k: int) -> list[Pool]:
        """The `k` products nearest to each query."""
        ids = list(corpus)
        products = product_vectors(self.encoder, corpus, self.cache_dir)  # [n, d]
        vectors = self.encoder.encode_queries([query.text for query in queries])  # [q, d]
        places = nearest(vectors, products, id_order(ids), k)  # [q, k]
        return [
            Pool(query.id, self.name, tuple(ids[place] for place in row))
            for query, row in zip(queries, places, strict=True)
        ]


def product_vectors(
    encoder: Encoder, corpus: Mapping[str, Product], cache_dir: Path | None
) -> np.ndarray:
    """Vectors float32 [n, d] of the products, from the cache where it has them."""
    texts = [product.text for product in corpus.values()]
    if cache_dir is None:
        return encoder.encode_products(texts)
    name = fingerprint({"encoder": dict(encoder.recipe), "texts": texts})
    path = Path(cache_dir) / "embeddings" / f"{name}.npy"
    if (cached := _load_vectors(path, len(texts))) is not None:
        return cached
    vectors = encoder.encode_products(texts)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
    return vectors


def nearest(queries: np.ndarray, products: np.ndarray, order: np.ndarray, k: int) -> np.ndarray:
    """Indices [q, k] of the products with the highest inner product, best first.

    Args:
        queries: [q, d].
        products: [n, d].
        order: [n], the tie-breaker: of products whose scores agree, the lowest comes first.
    """
    on_gpu = faiss.get_num_gpus() > 0
    index = _flat_index(products, on_gpu)
    widest = min(len(products), GPU_WIDTH) if on_gpu else len(products)
    k = min(k, widest)
    width = min(k + TIE_MARGIN, widest)
    while True:
        scores, places = index.search(queries, width)  # [q, width] each
        scores = np.round(scores, DECIMALS)
        if width == widest or bool(np.all(scores[:, -1] < scores[:, k - 1])):
            break
        width = min(2 * width, widest)  # the ties at the edge may go on
    ranked = np.lexsort((order[places], -scores), axis=-1)[:, :k]  # [q, k]
    return np.take_along_axis(places, ranked, axis=1)


def _flat_index(products: np.ndarray, on_gpu: bool) -> faiss.Index:
    index: faiss.Index = faiss.IndexFlatIP(products.shape[1])
    if on_gpu:
        index = faiss.index_cpu_to_all_gpus(index)
    index.add(products)
    return index


def _load_vectors(path: Path, rows: int) -> np.ndarray | None:
    """Cached vectors, or None where there are none or the file is damaged (which is logged)."""
    if not path.exists():
        return None
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        if vectors.ndim == 2 and len(vectors) == rows and vectors.dtype == np.float32:
            return vectors
        problem = f"it holds {vectors.dtype} {vectors.shape}, expected float32 of {rows} rows"
    except (ValueError, EOFError, OSError) as error:
        problem = str(error)
    log.warning("the cached vectors %s are damaged (%s) and are made again", path, problem)
    return None
