"""A bm25s index, built in blocks of products.

bm25s scores one product after the other in Python and sorts all postings at once, from lists of
word ids. Here a block's postings are counted, and later scored, in a few NumPy calls, and only
their counts stay in memory: the same index in less time, and in a fraction of the memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import bm25s
import numpy as np
from bm25s.tokenization import Tokenized, Tokenizer
from tqdm import tqdm

from memrerank.data.corpus import ROWS_PER_BATCH, Corpus

PROGRESS_FROM = 50_000  # products; smaller corpora are indexed in a few seconds
ROW_BITS = 32  # of a key that holds a word's id and, below, a product's row


@dataclass(frozen=True, slots=True)
class Postings:
    """The words of a block of products: which products hold each, and how often.

    first: row of the block's first product in the corpus.
    lengths: words of each product [b].
    words: ids of the block's words, rising [w].
    holders: products of the block that hold each word [w].
    rows: those products, as rows within the block, by word, then rising [p].
    counts: how often each of them holds the word [p].
    """

    first: int
    lengths: np.ndarray
    words: np.ndarray
    holders: np.ndarray
    rows: np.ndarray
    counts: np.ndarray


def build_index(corpus: Corpus, tokenizer: Tokenizer, k1: float, b: float) -> bm25s.BM25:
    """The BM25 index (Lucene's variant) of a corpus's texts; its documents are the corpus's rows.

    Word ids follow first appearance, so that equal corpora give equal files. Memory: some 8 bytes
    for each pair of a product and a word of its, and 3 to 6 more of them until the end.

    Args:
        tokenizer: takes up the corpus's vocabulary.
    """
    blocks = []
    with tqdm(
        desc="indexing products",
        total=len(corpus),
        unit=" products",
        disable=len(corpus) < PROGRESS_FROM,
    ) as bar:
        for start in range(0, len(corpus), ROWS_PER_BATCH):
            texts = corpus.texts(start, start + ROWS_PER_BATCH)
            stream = tokenizer.streaming_tokenize(texts, update_vocab=True, allow_empty=False)
            blocks.append(count_block(start, list(stream)))
            bar.update(len(texts))
    index = BlockBM25(method="lucene", k1=k1, b=b)
    index.index(
        Tokenized(blocks, tokenizer.get_vocab_dict()), create_empty_token=False, show_progress=False
    )
    return index


def count_block(first: int, products: Sequence[Sequence[int]]) -> Postings:
    """The postings of a block of products, given as the word ids of each."""
    lengths = np.fromiter(map(len, products), dtype=np.int64, count=len(products))
    words = np.fromiter(chain.from_iterable(products), dtype=np.int64, count=lengths.sum())
    rows = np.repeat(np.arange(len(products)), lengths)
    keys, counts = np.unique((words << ROW_BITS) | rows, return_counts=True)
    words, holders = np.unique(keys >> ROW_BITS, return_counts=True)
    rows = keys & (2**ROW_BITS - 1)
    return Postings(first, lengths, words, holders, _narrow(rows), _narrow(counts))


class BlockBM25(bm25s.BM25):
    """bm25s's index over postings in blocks, by the override that bm25s documents for this."""

    def build_index_from_ids(
        self,
        unique_token_ids: list[int],
        corpus_token_ids: list[Postings],
        show_progress: bool = True,
        leave_progress: bool = False,
    ) -> dict[str, Any]:
        """The scores of all postings, by word and then by row (CSC). Empties `corpus_token_ids`."""
        blocks = corpus_token_ids
        lengths = np.concatenate([block.lengths for block in blocks])
        frequencies = _document_frequencies(blocks, len(unique_token_ids))
        idf = np.log(1 + (len(lengths) - frequencies + 0.5) / (frequencies + 0.5))
        idf = idf.astype(self.dtype)
        shares = lengths / (lengths.mean() or 1)  # [n]; a mean of 0 has no posting to score
        starts = np.concatenate([[0], np.cumsum(frequencies)])
        data = np.empty(starts[-1], dtype=self.dtype)
        indices = np.empty(starts[-1], dtype=self.int_dtype)
        heads = starts[:-1].copy()  # where the next posting of each word goes
        while blocks:
            block = blocks.pop(0)
            ends = np.cumsum(block.holders)
            places = np.repeat(heads[block.words] - ends + block.holders, block.holders)
            places += np.arange(len(places))
            heads[block.words] += block.holders
            rows = block.first + block.rows.astype(np.int64)
            saturation = self.k1 * (1 - self.b + self.b * shares[rows])
            counts = block.counts / (block.counts + saturation)
            data[places] = np.repeat(idf[block.words], block.holders) * counts
            indices[places] = rows
        self.nonoccurrence_array = None  # Lucene's variant scores nothing where a word is missing
        return {"data": data, "indices": indices, "indptr": starts, "num_docs": len(lengths)}


def _document_frequencies(blocks: Iterable[Postings], words: int) -> np.ndarray:
    """How many products hold each word [words]."""
    frequencies = np.zeros(words, dtype=np.int64)
    for block in blocks:
        frequencies[block.words] += block.holders
    return frequencies


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """The same natural numbers in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))
