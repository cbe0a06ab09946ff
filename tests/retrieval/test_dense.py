"""DenseRetriever against NumPy brute force, with an encoder that looks vectors up."""

import numpy as np
import pytest
from hash_encoder import HashEncoder

from memrerank.config.data import EmbeddingEngine, VectorDtype
from memrerank.errors import ConfigError
from memrerank.retrieval.dense import DenseRetriever, product_vectors
from memrerank.schema import Product, Query

# 120 products of which every three in a row share their text, so that their scores tie.
CORPUS = {
    f"p{(n * 37) % 120:03}": Product(f"p{(n * 37) % 120:03}", f"text {n // 3}", "", "Shop")
    for n in range(120)
}
QUERIES = [Query(f"q{n}", f"query {n}", "u", "p000", "Shop", 1) for n in range(7)]


@pytest.mark.parametrize("vector_dtype", ["float16", "float32"])
@pytest.mark.parametrize("k", [1, 4, 100, 120, 500])
def test_pools_agree_with_brute_force(k, vector_dtype):
    encoder = HashEncoder()
    retriever = DenseRetriever(encoder, "fake", vector_dtype=vector_dtype, shard_rows=50)
    pools = retriever.search(CORPUS, QUERIES, k)
    products = encoder.encode_queries([product.text for product in CORPUS.values()])
    products = products.astype(vector_dtype).astype(np.float64)
    vectors = encoder.encode_queries([query.text for query in QUERIES]).astype(np.float64)
    for pool, query, scores in zip(pools, QUERIES, vectors @ products.T, strict=True):
        rounded = dict(zip(CORPUS, np.round(scores, 6), strict=True))
        best = sorted(CORPUS, key=lambda id: (-rounded[id], id))[:k]
        assert (pool.query_id, pool.retriever) == (query.id, "fake")
        assert pool.product_ids == tuple(best)


def test_vectors_are_kept_and_used_again(tmp_path):
    first, second = HashEncoder(), HashEncoder()
    pools = DenseRetriever(first, "fake", cache_dir=str(tmp_path)).search(CORPUS, QUERIES, 9)
    again = DenseRetriever(second, "fake", cache_dir=str(tmp_path)).search(CORPUS, QUERIES, 9)
    assert pools == again
    assert (first.encoded, second.encoded) == (120, 0)


def test_product_vectors_come_in_the_order_of_the_mapping(tmp_path):
    encoder = HashEncoder()
    expected = encoder.encode_queries([product.text for product in CORPUS.values()])
    assert list(CORPUS) != sorted(CORPUS)
    for folder in (None, tmp_path, tmp_path):
        vectors = product_vectors(encoder, CORPUS, folder)
        assert vectors.dtype == np.float32
        assert np.array_equal(vectors, expected)
    assert encoder.encoded == 240  # the third time they were there


def test_a_retriever_in_float32_shares_the_vectors_of_the_judge(tmp_path):
    encoder = HashEncoder()
    product_vectors(encoder, CORPUS, tmp_path)
    retriever = DenseRetriever(encoder, "fake", vector_dtype="float32", cache_dir=tmp_path)
    retriever.search(CORPUS, QUERIES, 9)
    assert encoder.encoded == 120


def test_settings_name_what_the_pools_depend_on_and_nothing_else():
    expected = {"kind": "dense", "vector_dtype": "float16", "model": "hash", "seed": 4, "dims": 8}
    plain = DenseRetriever(HashEncoder(seed=4), "fake")
    other = DenseRetriever(
        HashEncoder(seed=4),
        "fake",
        vector_dtype=VectorDtype.float16,
        engine=EmbeddingEngine.ray,
        workers=3,
        shard_rows=5,
        block_mb=1,
    )
    assert plain.settings() == other.settings() == expected
    assert {type(value) for value in other.settings().values()} == {str, int}


def test_a_block_of_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"retrieval\.block_mb=0 will not do"):
        DenseRetriever(HashEncoder(), "fake", block_mb=0)
