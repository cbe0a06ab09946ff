"""BM25Retriever against the formula, computed here word by word."""

import math
import re

import numpy as np
import pytest

from memrerank.retrieval.bm25 import BM25Retriever
from memrerank.schema import Product, Query

TEXTS = {
    "p0": "red ceramic mug with handle",
    "p1": "blue ceramic bowl and blue ceramic plate",
    "p2": "steel travel mug keeps coffee hot",
    "p3": "wool socks for winter",
    "p4": "running socks light and thin",
    "p5": "wool winter hat red",
    "p6": "coffee grinder steel burr coffee coffee",
    "p7": "garden hose",
    "p8": "red garden gloves",
    "p9": "notebook ruled pages",
}
QUERIES = ["red mug", "coffee coffee steel", "wool winter socks unknownword", "nothing shared"]


def corpus() -> dict[str, Product]:
    return {id: Product(id, text, "", "Shop") for id, text in TEXTS.items()}


def queries(texts: list[str]) -> list[Query]:
    return [Query(f"q{n}", text, "u", "p0", "Shop", 1) for n, text in enumerate(texts)]


def by_hand(query: str, k1: float, b: float) -> list[float]:
    """Lucene's BM25 (Kamphuis et al. 2020, table 1): each query word adds idf * tf / (tf + K)."""
    documents = [re.findall(r"\w\w+", text) for text in TEXTS.values()]
    mean_length = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        total = 0.0
        for word in query.split():
            holding = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            frequency = words.count(word)
            length_factor = k1 * (1 - b + b * len(words) / mean_length)
            total += idf * frequency / (frequency + length_factor)
        scores.append(total)
    return scores


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_scores_are_those_of_the_formula(k1, b):
    retriever = BM25Retriever(k1=k1, b=b, stemmer="", stopwords="")
    rows = np.stack(list(retriever.scores(corpus(), queries(QUERIES))))
    expected = np.array([by_hand(query, k1, b) for query in QUERIES])
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_pools_are_in_the_order_of_the_scores_with_ties_by_id():
    pools = BM25Retriever(stemmer="", stopwords="").search(corpus(), queries(QUERIES), 10)
    for pool, text in zip(pools, QUERIES, strict=True):
        scores = dict(zip(TEXTS, by_hand(text, 1.5, 0.75), strict=True))
        expected = sorted(TEXTS, key=lambda id: (-round(scores[id], 6), id))
        assert pool.product_ids == tuple(expected)
    assert pools[3].product_ids == tuple(TEXTS)  # no shared word: all tie
    assert [(pool.query_id, pool.retriever) for pool in pools] == [
        (f"q{n}", "bm25") for n in range(4)
    ]


def test_stemming_and_stopwords_are_settings():
    shop = {
        "a": Product("a", "the and of the", "", "Shop"),
        "b": Product("b", "running socks", "", "Shop"),
        "c": Product("c", "a lamp", "", "Shop"),
    }
    asked = queries(["the sock run"])
    assert BM25Retriever().search(shop, asked, 1)[0].product_ids == ("b",)
    plain = BM25Retriever(stemmer="", stopwords="")
    assert plain.search(shop, asked, 1)[0].product_ids == ("a",)
    assert plain.settings() != BM25Retriever().settings()


def test_k_beyond_the_corpus_gives_the_whole_corpus_and_queries_of_stopwords_are_fine():
    pools = BM25Retriever().search(corpus(), queries(["the of and", "mug"]), 50)
    assert [len(pool.product_ids) for pool in pools] == [10, 10]
    assert pools[0].product_ids == tuple(TEXTS)
