"""What the products of a corpus say of themselves."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from memrerank.schema import Product


@dataclass(frozen=True, slots=True)
class CorpusTexts:
    """Products by the words that they have, title and description together."""

    products: int
    without_description: int  # nor features or details, which stand in for a blank one
    words: Counter[int]  # number of words -> number of products

    @property
    def share_without_description(self) -> float:
        """Of all products; 0 of none."""
        return self.without_description / self.products if self.products else 0.0


def corpus_texts(products: Iterable[Product]) -> CorpusTexts:
    """Counts words and blank descriptions in one pass."""
    words: Counter[int] = Counter()
    without = 0
    for product in products:
        words[len(product.title.split()) + len(product.description.split())] += 1
        without += not product.description
    return CorpusTexts(words.total(), without, words)
