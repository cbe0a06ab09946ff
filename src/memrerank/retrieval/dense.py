"""Dense retrieval: exact inner product over the vectors of an embedded corpus."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memrerank.data.corpus import as_corpus
from memrerank.errors import ConfigError
from memrerank.retrieval.embedding import EmbeddingSettings, Encoder, embed_corpus
from memrerank.retrieval.ranking import id_order
from memrerank.retrieval.search import nearest
from memrerank.schema import Pool, Product, Query


class DenseRetriever:
    """Ranks products by the inner product of their vectors with the query's.

    Args:
        encoder: makes the vectors.
        name: what the pools are called after.
        held_out: evaluation only, never training.
        vector_dtype: of the product vectors, `float16` or `float32`.
        cache_dir: where product vectors are kept for later runs; None keeps none.
        engine: what embeds the corpus, `local` or `ray`.
        workers: processes or Ray actors that embed.
        shard_rows: products per shard, the unit of embedding and of resuming.
        block_mb: megabytes (2**20 bytes) of product vectors that a search holds at once.

    Raises:
        ConfigError: names the setting that cannot work.
    """

    def __init__(
        self,
        encoder: Encoder,
        name: str,
        held_out: bool = False,
        vector_dtype: str = "float16",
        cache_dir: str | Path | None = None,
        engine: str = "local",
        workers: int = 1,
        shard_rows: int = 16_384,
        block_mb: int = 512,
    ) -> None:
        if block_mb < 1:
            raise ConfigError(f"retrieval.block_mb={block_mb} will not do; set it to 1 or more")
        self.encoder = encoder
        self.name = name
        self.held_out = held_out
        self.cache_dir = None if cache_dir is None else Path(cache_dir)
        self.embedding = EmbeddingSettings(str(engine), workers, shard_rows, str(vector_dtype))
        self.block_mb = block_mb

    def settings(self) -> dict[str, Any]:
        """All that the pools depend on besides products and queries."""
        return {"kind": "dense", "vector_dtype": self.embedding.dtype, **self.encoder.recipe}

    def search(self, corpus: Mapping[str, Product], queries: Sequence[Query], k: int) -> list[Pool]:
        """The `k` products nearest to each query."""
        products = as_corpus(corpus)
        store = embed_corpus(self.encoder, products, self.cache_dir, self.embedding)
        vectors = self.encoder.encode_queries([query.text for query in queries])  # [q, d]
        order = np.arange(len(products))  # a corpus is sorted by id
        places = nearest(vectors, store, order, k, self.block_mb * 2**20)  # [q, k]
        ids = list(products)
        return [
            Pool(query.id, self.name, tuple(ids[place] for place in row))
            for query, row in zip(queries, places, strict=True)
        ]


def product_vectors(
    encoder: Encoder, corpus: Mapping[str, Product], cache_dir: Path | None
) -> np.ndarray:
    """Vectors float32 [n, d] of the products in the corpus's own order, kept in `cache_dir`."""
    store = embed_corpus(encoder, corpus, cache_dir, EmbeddingSettings(dtype="float32"))
    return store.read()[id_order(list(corpus))]
