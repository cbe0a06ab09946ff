"""Lexical retrieval with BM25 (bm25s, Lucene's variant)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import bm25s
import numpy as np
import Stemmer

from memrerank.retrieval.ranking import best, id_order
from memrerank.schema import Pool, Product, Query

PROGRESS_FROM = 50_000  # products; smaller corpora are indexed in a few seconds


class BM25Retriever:
    """Ranks products by BM25 over their text.

    Args:
        name: what the pools are called after.
        k1: saturation of repeated words.
        b: weight of the product's length, 0 to 1.
        stemmer: a Snowball language, or an empty string for no stemming.
        stopwords: a language that bm25s has stopwords of, or an empty string for none.
        held_out: evaluation only, never training.
    """

    def __init__(
        self,
        name: str = "bm25",
        k1: float = 1.5,
        b: float = 0.75,
        stemmer: str = "english",
        stopwords: str = "en",
        held_out: bool = False,
    ) -> None:
        self.name = name
        self.k1 = k1
        self.b = b
        self.stemmer = stemmer
        self.stopwords = stopwords
        self.held_out = held_out

    def settings(self) -> dict[str, Any]:
        """All that the pools depend on besides products and queries."""
        return {
            "kind": "bm25",
            "version": bm25s.__version__,
            "k1": self.k1,
            "b": self.b,
            "stemmer": self.stemmer,
            "stopwords": self.stopwords,
        }

    def search(self, corpus: Mapping[str, Product], queries: Sequence[Query], k: int) -> list[Pool]:
        """The `k` best products for each query; those that share no word with it come last."""
        ids = list(corpus)
        order = id_order(ids)
        return [
            Pool(query.id, self.name, tuple(ids[i] for i in best(row, order, k)))
            for query, row in zip(queries, self.scores(corpus, queries), strict=True)
        ]

    def scores(
        self, corpus: Mapping[str, Product], queries: Sequence[Query]
    ) -> Iterator[np.ndarray]:
        """For each query, the scores of all products [n] in the order of the corpus."""
        index = bm25s.BM25(method="lucene", k1=self.k1, b=self.b)
        index.index(
            self._words([product.text for product in corpus.values()]),
            show_progress=len(corpus) > PROGRESS_FROM,
        )
        nothing = np.zeros(len(corpus), dtype=np.float32)
        for words in self._words([query.text for query in queries]):
            yield index.get_scores(words) if words else nothing

    def _words(self, texts: list[str]) -> list[list[str]]:
        return bm25s.tokenize(
            texts,
            stopwords=self.stopwords or [],
            stemmer=Stemmer.Stemmer(self.stemmer) if self.stemmer else None,
            return_ids=False,
            show_progress=len(texts) > PROGRESS_FROM,
        )
