"""BM25Retriever against Lucene's formula, written out here word by word."""

import dataclasses
import math
import re

import numpy as np
import pytest
import Stemmer

from memrerank.data.corpus import Corpus
from memrerank.errors import ConfigError, DataError
from memrerank.retrieval.bm25 import BM25Retriever
from memrerank.schema import Product, Query
from memrerank.seeding import numpy_generator

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
SHOP_WORDS = (
    "The Adjustable STEEL travelling mugs, for coffee & tea; running shoes' soles were it a "
    "waterproof backpacks/bags no Wi-Fi 5 USB-C cables 2x cable café crème brûlée pans and panning "
    "of is batteries battery charging chargers Kids' kid toys (toy) that then lamp lamps glow_dark"
)
SHOP_QUERIES = (
    "a mug for travel coffee",
    "The Waterproof bag, and CHARGING cables for the battery",
    "café pan, pan & pans",
    "running running shoe sole glow_dark lamps",
    "is it a 5 x?",
)
STOPWORDS = (  # of bm25s and Lucene
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)


def shop(texts: dict[str, str]) -> dict[str, Product]:
    return {id: Product(id, text, "", "Shop") for id, text in texts.items()}


def queries(texts: list[str] | tuple[str, ...]) -> list[Query]:
    return [Query(f"q{n}", text, "u", "p0", "Shop", 1) for n, text in enumerate(texts)]


def fifty_texts() -> dict[str, str]:
    generator = numpy_generator(0, "fifty texts")
    lengths = [0, 1, *generator.integers(2, 40, size=48)]
    return {
        f"p{n:02}": " ".join(generator.choice(SHOP_WORDS.split(), size=length))
        for n, length in enumerate(lengths)
    }


def plain_words(text: str) -> list[str]:
    return re.findall(r"(?u)\b\w\w+\b", text.lower())


def english_words(text: str) -> list[str]:
    stem = Stemmer.Stemmer("english").stemWord
    return [stem(word) for word in plain_words(text) if word not in STOPWORDS.split()]


def lucene(texts, query, words_of, k1, b):
    """Kamphuis et al. 2020, table 1: each query word adds idf * tf / (tf + k1 (1 - b + b L))."""
    documents = [words_of(text) for text in texts.values()]
    mean_length = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        total = 0.0
        for word in words_of(query):
            holding = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            frequency = words.count(word)
            saturation = k1 * (1 - b + b * len(words) / mean_length)
            total += idf * frequency / (frequency + saturation)
        scores.append(total)
    return scores


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_scores_are_those_of_the_formula(k1, b):
    retriever = BM25Retriever(k1=k1, b=b, stemmer="", stopwords="")
    rows = np.stack(list(retriever.scores(shop(TEXTS), queries(QUERIES))))
    expected = np.array([lucene(TEXTS, query, plain_words, k1, b) for query in QUERIES])
    np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.parametrize("cached", [False, True])
def test_fifty_products_have_the_scores_of_the_formula_stopwords_and_stems_included(
    cached, tmp_path
):
    texts = fifty_texts()
    retriever = BM25Retriever(cache_dir=tmp_path if cached else None)
    rows = np.stack(list(retriever.scores(shop(texts), queries(SHOP_QUERIES))))
    expected = np.array([lucene(texts, query, english_words, 1.5, 0.75) for query in SHOP_QUERIES])
    assert (np.count_nonzero(expected, axis=1)[:4] > 10).all()  # 4 queries have something to find
    assert not expected[4].any()  # and one has no word: stopwords and single letters alone
    np.testing.assert_allclose(rows, expected, atol=1e-5, rtol=0)


def test_a_score_worked_out_by_hand():
    texts = {
        "p0": "steel mug",
        "p1": "steel steel pan lid",
        "p2": "wool hat",
        "p3": "red lamp shade oil",
    }
    # 4 products of 2, 4, 2 and 4 words: 3 on average. 2 of them hold "steel", p1 twice.
    # idf = ln(1 + (4 - 2 + 0.5) / (2 + 0.5)) = ln 2 = 0.693147
    # p1: k1 (1 - b + b * 4 / 3) = 1.5 * 1.25 = 1.875;  2 / (2 + 1.875) = 0.516129
    # 0.693147 * 0.516129 = 0.357753
    (scores,) = BM25Retriever().scores(shop(texts), queries(["steel"]))
    assert scores[1] == pytest.approx(0.357753, abs=1e-6)


def test_pools_are_in_the_order_of_the_scores_with_ties_by_id():
    backwards = dict(reversed(shop(TEXTS).items()))
    pools = BM25Retriever(stemmer="", stopwords="").search(backwards, queries(QUERIES), 10)
    for pool, text in zip(pools, QUERIES, strict=True):
        scores = dict(zip(TEXTS, lucene(TEXTS, text, plain_words, 1.5, 0.75), strict=True))
        expected = sorted(TEXTS, key=lambda id: (-round(scores[id], 6), id))
        assert pool.product_ids == tuple(expected)
    assert pools[3].product_ids == tuple(TEXTS)  # no shared word: all tie
    assert [(pool.query_id, pool.retriever) for pool in pools] == [
        (f"q{n}", "bm25") for n in range(4)
    ]


def test_stemming_and_stopwords_are_settings():
    texts = shop({"a": "the and of the", "b": "running socks", "c": "a lamp"})
    asked = queries(["the sock run"])
    assert BM25Retriever().search(texts, asked, 1)[0].product_ids == ("b",)
    plain = BM25Retriever(stemmer="", stopwords="")
    assert plain.search(texts, asked, 1)[0].product_ids == ("a",)
    assert plain.settings() != BM25Retriever().settings()


def test_k_beyond_the_corpus_gives_the_whole_corpus_and_queries_of_stopwords_are_fine():
    pools = BM25Retriever().search(shop(TEXTS), queries(["the of and", "mug"]), 50)
    assert [len(pool.product_ids) for pool in pools] == [10, 10]
    assert pools[0].product_ids == tuple(TEXTS)


def test_products_without_any_word_all_tie():
    pools = BM25Retriever().search(shop({"b": "the", "a": "..."}), queries(["mug"]), 2)
    assert pools[0].product_ids == ("a", "b")


def test_each_setting_and_each_corpus_has_an_index_of_its_own_that_is_built_once(tmp_path):
    def indexes() -> int:
        return sum(path.is_dir() for path in (tmp_path / "bm25").iterdir())

    corpus = Corpus.of(shop(TEXTS).values())
    expected = BM25Retriever().search(corpus, queries(QUERIES), 5)
    for _ in range(2):
        kept = BM25Retriever(cache_dir=tmp_path)
        assert kept.search(corpus, queries(QUERIES), 5) == expected
    assert indexes() == 1
    others = shop(TEXTS)
    others["p0"] = dataclasses.replace(others["p0"], title="red ceramic cup")
    variants = [{"k1": 1.2}, {"b": 0.5}, {"stemmer": ""}, {"stopwords": ""}, {}]
    for number, changed in enumerate(variants):
        retriever = BM25Retriever(cache_dir=tmp_path, **changed)
        retriever.search(corpus if changed else others, queries(QUERIES), 5)
        assert indexes() == number + 2
    BM25Retriever(name="other", held_out=True, cache_dir=tmp_path).search(corpus, [], 5)
    assert indexes() == len(variants) + 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"k1": -1}, r"retriever\.k1=-1"),
        ({"b": 1.5}, r"retriever\.b=1\.5"),
        ({"stemmer": "klingon"}, r"retriever\.stemmer='klingon'.*english"),
        ({"stopwords": "klingon"}, r"retriever\.stopwords='klingon'"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(setting, message):
    with pytest.raises(ConfigError, match=message):
        BM25Retriever(**setting)


def test_an_empty_corpus_is_refused():
    with pytest.raises(DataError, match="no products"):
        BM25Retriever().search({}, queries(["mug"]), 5)
