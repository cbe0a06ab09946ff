"""DenseRetriever against NumPy brute force, with an encoder that looks vectors up."""

import logging
from collections.abc import Sequence

import numpy as np
import pytest

from memrerank.retrieval.dense import DenseRetriever, nearest
from memrerank.retrieval.ranking import id_order
from memrerank.schema import Product, Query


class FakeEncoder:
    """Random unit vectors, the same for the same text; counts the products that it encodes."""

    def __init__(self, seed: int = 0, dimensions: int = 8) -> None:
        self.recipe = {"model": "fake", "seed": seed}
        self.seed = seed
        self.dimensions = dimensions
        self.encoded = 0

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        rows = [
            np.random.default_rng([self.seed, *text.encode()]).normal(size=self.dimensions)
            for text in texts
        ]
        vectors = np.array(rows, dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_products(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded += len(texts)
        return self.encode_queries(texts)


# 120 products of which every three in a row share their text, so that their scores tie.
CORPUS = {
    f"p{(n * 37) % 120:03}": Product(f"p{(n * 37) % 120:03}", f"text {n // 3}", "", "Shop")
    for n in range(120)
}
QUERIES = [Query(f"q{n}", f"query {n}", "u", "p000", "Shop", 1) for n in range(7)]


@pytest.mark.parametrize("k", [1, 4, 100, 120, 500])
def test_pools_agree_with_brute_force(k):
    encoder = FakeEncoder()
    pools = DenseRetriever(encoder, "fake").search(CORPUS, QUERIES, k)
    products = encoder.encode_products([product.text for product in CORPUS.values()])
    vectors = encoder.encode_queries([query.text for query in QUERIES])
    for pool, query, scores in zip(pools, QUERIES, vectors @ products.T, strict=True):
        rounded = dict(zip(CORPUS, np.round(scores, 6), strict=True))
        expected = sorted(CORPUS, key=lambda id: (-rounded[id], id))[:k]
        assert (pool.query_id, pool.retriever) == (query.id, "fake")
        assert pool.product_ids == tuple(expected)


def test_ties_far_beyond_k_are_still_broken_by_id():
    products = np.tile(np.float32([[1, 0]]), (500, 1))  # all 500 tie
    ids = [f"p{number:03}" for number in np.random.default_rng(0).permutation(500)]
    places = nearest(np.float32([[1, 0]]), products, id_order(ids), 3)
    assert [ids[place] for place in places[0]] == ["p000", "p001", "p002"]


def test_vectors_are_kept_and_used_again(tmp_path):
    first, second = FakeEncoder(), FakeEncoder()
    pools = DenseRetriever(first, "fake", cache_dir=tmp_path).search(CORPUS, QUERIES, 9)
    again = DenseRetriever(second, "fake", cache_dir=tmp_path).search(CORPUS, QUERIES, 9)
    assert pools == again
    assert (first.encoded, second.encoded) == (120, 0)


def test_another_recipe_or_corpus_has_vectors_of_its_own(tmp_path):
    DenseRetriever(FakeEncoder(), "fake", cache_dir=tmp_path).search(CORPUS, QUERIES, 9)
    reseeded = FakeEncoder(seed=1)
    pools = DenseRetriever(reseeded, "fake", cache_dir=tmp_path).search(CORPUS, QUERIES, 9)
    assert reseeded.encoded == 120
    assert pools == DenseRetriever(FakeEncoder(seed=1), "fake").search(CORPUS, QUERIES, 9)
    fewer = FakeEncoder()
    shop = dict(list(CORPUS.items())[:50])
    DenseRetriever(fewer, "fake", cache_dir=tmp_path).search(shop, QUERIES, 9)
    assert fewer.encoded == 50


@pytest.mark.parametrize("damage", ["truncated", "other shape", "no array"])
def test_damaged_vectors_are_reported_and_made_again(tmp_path, caplog, damage):
    expected = DenseRetriever(FakeEncoder(), "fake", cache_dir=tmp_path).search(CORPUS, QUERIES, 9)
    (path,) = tmp_path.rglob("*.npy")
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    elif damage == "other shape":
        np.save(path, np.zeros((3, 8), dtype=np.float32))
    else:
        path.write_bytes(b"nonsense")
    encoder = FakeEncoder()
    with caplog.at_level(logging.WARNING):
        pools = DenseRetriever(encoder, "fake", cache_dir=tmp_path).search(CORPUS, QUERIES, 9)
    assert pools == expected
    assert encoder.encoded == 120
    assert str(path) in caplog.text
    assert np.load(path).shape == (120, 8)  # whole again
    assert [file.name for file in tmp_path.rglob("*.*")] == [path.name]


def test_settings_name_the_recipe():
    assert DenseRetriever(FakeEncoder(seed=4), "fake").settings() == {
        "kind": "dense",
        "model": "fake",
        "seed": 4,
    }
