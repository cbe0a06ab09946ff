"""best and id_order against sorting in plain Python."""

import numpy as np
import pytest

from memrerank.retrieval.ranking import best, id_order


def test_id_order_is_the_place_among_sorted_ids():
    assert id_order(["c", "a", "B", "b"]).tolist() == [3, 1, 0, 2]


@pytest.mark.parametrize("k", [1, 3, 10, 40, 99])
def test_best_agrees_with_sorting_by_score_then_id(k):
    generator = np.random.default_rng(k)
    scores = generator.integers(0, 8, size=40) / 8  # many ties, some at the edge of k
    ids = [f"p{number:02}" for number in generator.permutation(40)]
    expected = sorted(range(40), key=lambda at: (-scores[at], ids[at]))[:k]
    assert best(scores, id_order(ids), k).tolist() == expected


def test_scores_that_differ_in_the_last_float_digits_are_ties():
    scores = np.array([0.5, 0.5 + 1e-7, 0.4], dtype=np.float32)
    assert best(scores, id_order(["a", "b", "c"]), 2).tolist() == [0, 1]
