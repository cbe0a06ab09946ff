"""best and id_order against sorting in plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrerank.retrieval.ranking import DECIMALS, best, id_order

LEVELS = (0.0, -0.0, 1e-7, 4e-7, 6e-7, -6e-7, 0.5, 0.5 + 6e-7, 1.0, -3.25, 7.123456, 250.0, 1e4)


def by_sorting(scores: np.ndarray, order: np.ndarray, k: int) -> list[int]:
    """The definition: round everything, sort everything."""
    rounded = np.round(scores, DECIMALS).tolist()
    return sorted(range(len(scores)), key=lambda at: (-rounded[at], order[at]))[:k]


def test_id_order_is_the_place_among_sorted_ids():
    assert id_order(["c", "a", "B", "b"]).tolist() == [3, 1, 0, 2]


@given(
    scores=st.lists(
        st.one_of(
            st.sampled_from(LEVELS),
            st.floats(-50, 50, width=32),
            st.floats(0, 3e-6),
        ),
        min_size=1,
        max_size=40,
    ),
    k=st.integers(1, 50),
    dtype=st.sampled_from([np.float32, np.float64]),
    data=st.data(),
)
def test_best_is_the_head_of_everything_rounded_and_sorted(scores, k, dtype, data):
    order = np.array(data.draw(st.permutations(range(len(scores)))))
    array = np.array(scores, dtype=dtype)
    assert best(array, order, k).tolist() == by_sorting(array, order, k)


@pytest.mark.parametrize("k", [1, 20, 46, 47, 100, 2_999, 3_000, 4_000])
@pytest.mark.parametrize("levels", [1, 2, 5, 1_000_000])
def test_best_with_thousands_of_ties_at_the_edge(k, levels):
    generator = np.random.default_rng(levels)
    scores = (generator.integers(0, levels, size=3_000) * 1e-6).astype(np.float32)
    order = generator.permutation(3_000)
    assert best(scores, order, k).tolist() == by_sorting(scores, order, k)


def test_scores_that_differ_in_the_last_float_digits_are_ties():
    scores = np.array([0.5, 0.5 + 1e-7, 0.4], dtype=np.float32)
    assert best(scores, id_order(["a", "b", "c"]), 2).tolist() == [0, 1]


def test_nothing_is_the_best_of_nothing():
    assert best(np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.int64), 3).tolist() == []
    assert best(np.ones(3, dtype=np.float32), np.arange(3), 0).tolist() == []
