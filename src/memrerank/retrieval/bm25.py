"""Lexical retrieval with BM25 (bm25s, Lucene's variant)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import Stemmer
from bm25s.tokenization import Tokenizer

from memrerank.data.corpus import Corpus, as_corpus
from memrerank.errors import ConfigError, DataError
from memrerank.retrieval.bm25_index import build_index
from memrerank.retrieval.bm25_store import kept_index
from memrerank.retrieval.ranking import best
from memrerank.schema import Pool, Product, Query
from memrerank.storage import fingerprint

FORMAT = 1  # raise it when the indexes of old shall not be read any more


class BM25Retriever:
    """Ranks products by BM25 over their text.

    A word is two or more word characters in lower case. Stopwords are dropped, then the rest is
    stemmed. A word that a query repeats counts as often.

    Args:
        name: what the pools are called after.
        k1: saturation of repeated words, 0 or more.
        b: weight of the product's length, 0 to 1.
        stemmer: a Snowball language, or an empty string for no stemming.
        stopwords: a language that bm25s has stopwords of, or an empty string for none.
        held_out: evaluation only, never training.
        cache_dir: where the index is kept, in `bm25/{key}/`; None builds it anew for each search.

    Raises:
        ConfigError: names the setting that cannot work.
    """

    def __init__(
        self,
        name: str = "bm25",
        k1: float = 1.5,
        b: float = 0.75,
        stemmer: str = "english",
        stopwords: str = "en",
        held_out: bool = False,
        cache_dir: str | Path | None = None,
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1:
            raise ConfigError(f"retriever.k1={k1} must be 0 or more, retriever.b={b} from 0 to 1")
        self.name = name
        self.k1 = k1
        self.b = b
        self.stemmer = stemmer
        self.stopwords = stopwords
        self.held_out = held_out
        self.cache_dir = None if cache_dir is None else Path(cache_dir)
        self._tokenizer()  # refuses languages that there are not

    def settings(self) -> dict[str, Any]:
        """All that the pools depend on besides products and queries."""
        return {
            "kind": "bm25",
            "version": bm25s.__version__,
            "k1": self.k1,
            "b": self.b,
            "stemmer": self.stemmer,
            "stemmer_version": Stemmer.version(),
            "stopwords": self.stopwords,
        }

    def search(self, corpus: Mapping[str, Product], queries: Sequence[Query], k: int) -> list[Pool]:
        """The `k` best products for each query; those that share no word with it come last.

        Raises:
            DataError: the corpus is empty.
        """
        ids = sorted(corpus)
        order = np.arange(len(ids))
        return [
            Pool(query.id, self.name, tuple(ids[row] for row in best(scores, order, k)))
            for query, scores in zip(queries, self.scores(corpus, queries), strict=True)
        ]

    def scores(
        self, corpus: Mapping[str, Product], queries: Sequence[Query]
    ) -> Iterator[np.ndarray]:
        """For each query, the scores (float32) of all products [n] in the order of their ids.

        Raises:
            DataError: the corpus is empty.
        """
        products = as_corpus(corpus)
        if not products:
            raise DataError("the corpus has no products, so there is nothing to search")
        index = self._index(products)
        nothing = np.zeros(len(products), dtype=np.float32)
        for words in self._words([query.text for query in queries]):
            known = index.get_tokens_ids(words)
            yield index.get_scores_from_ids(known) if known else nothing

    def _index(self, corpus: Corpus) -> bm25s.BM25:
        if self.cache_dir is None:
            return build_index(corpus, self._tokenizer(), self.k1, self.b)
        key = fingerprint({"format": FORMAT, "corpus": corpus.fingerprint, **self.settings()})
        return kept_index(
            self.cache_dir / "bm25" / key,
            lambda: build_index(corpus, self._tokenizer(), self.k1, self.b),
        )

    def _words(self, texts: list[str]) -> list[list[str]]:
        stemmer = Stemmer.Stemmer(self.stemmer) if self.stemmer else None
        words: list[list[str]] = bm25s.tokenize(
            texts,
            stopwords=self.stopwords or [],
            stemmer=stemmer,
            return_ids=False,
            show_progress=False,
        )
        return words

    def _tokenizer(self) -> Tokenizer:
        if self.stemmer and self.stemmer not in Stemmer.algorithms():
            raise ConfigError(
                f"retriever.stemmer={self.stemmer!r} is no Snowball language: "
                f"{', '.join(Stemmer.algorithms())}, or an empty string for no stemming"
            )
        stemmer = Stemmer.Stemmer(self.stemmer) if self.stemmer else None
        try:
            return Tokenizer(stopwords=self.stopwords or [], stemmer=stemmer)
        except ValueError as error:
            raise ConfigError(f"retriever.stopwords={self.stopwords!r}: {error}") from error
