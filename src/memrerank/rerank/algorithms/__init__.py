"""Ranking algorithms: from what a judge says of a few products to an order of the whole pool.

Each is a generator. It yields a round of candidate sets, whose comparisons do not depend on one
another; receives what the judge said of each set, in the same order (`memrerank.rerank.ranking`);
and returns the order. Whatever the answers are, inconsistent ones too, the order holds every
product once and every set holds 2 to `set_size` distinct products.

docs/ranking.md tells them apart. The paper does not name its algorithm.
"""

from memrerank.rerank.algorithms.common import Algorithm, Rounds, Sets, Winners
from memrerank.rerank.algorithms.forest import forest
from memrerank.rerank.algorithms.full_order import full_order
from memrerank.rerank.algorithms.knockout import knockout
from memrerank.rerank.algorithms.pointwise import pointwise
from memrerank.rerank.algorithms.sorting import bubblesort, heapsort

__all__ = [
    "Algorithm",
    "Rounds",
    "Sets",
    "Winners",
    "bubblesort",
    "forest",
    "full_order",
    "heapsort",
    "knockout",
    "pointwise",
]
