"""The paired test against hand-made counts and SciPy, the interval against theory."""

import numpy as np
import pytest
from scipy import stats

from memrerank.errors import DataError
from memrerank.evaluation.significance import bootstrap_interval, compare, sign_flip_p_value


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([1, 1, 1, 1], 2 / 16),  # all plus or all minus
        ([3, -1, 2], 4 / 8),  # 3+1+2, 3-1+2 and their negatives reach 4
        ([1, -1], 1.0),
        ([0, 0, 0], 1.0),
        ([0, 5, 0], 1.0),  # one difference has two signs, both as large
        ([0.1] * 10, 2 / 1024),  # sums of 0.1 differ by rounding
    ],
)
def test_exact_p_values_by_hand(differences: list[float], expected: float) -> None:
    assert sign_flip_p_value(np.array(differences, float), seed=0) == expected


def _scipy_p_value(differences: np.ndarray) -> float:
    result = stats.permutation_test(
        (differences, np.zeros_like(differences)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    return float(result.pvalue)


@pytest.mark.parametrize("seed", range(5))
def test_exact_p_values_agree_with_scipy(seed: int) -> None:
    differences = np.random.default_rng(seed).normal(0.3, 1, size=11)
    assert sign_flip_p_value(differences, seed=0) == pytest.approx(_scipy_p_value(differences))


def test_random_signs_come_close_to_all_signs() -> None:
    differences = np.random.default_rng(1).normal(0.2, 1, size=18)
    exact = _scipy_p_value(differences)
    estimate = sign_flip_p_value(differences, seed=3, samples=20_000)
    assert 0.01 < exact < 0.5
    assert estimate == pytest.approx(exact, abs=4 * np.sqrt(exact / 20_000))
    assert estimate == sign_flip_p_value(differences, seed=3, samples=20_000)
    assert estimate != sign_flip_p_value(differences, seed=4, samples=20_000)


def test_a_random_p_value_is_never_zero() -> None:
    assert sign_flip_p_value(np.ones(40), seed=0, samples=99) == 1 / 100


def test_the_interval_of_equal_values_is_a_point() -> None:
    assert bootstrap_interval(np.full(7, 0.25), seed=0) == (0.25, 0.25)


def test_the_interval_is_as_wide_as_the_normal_one() -> None:
    values = np.random.default_rng(5).normal(0.4, 1.0, size=400)
    low, high = bootstrap_interval(values, seed=0)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.006)
    narrow = bootstrap_interval(values, seed=0, level=0.5)
    assert low < narrow[0] < values.mean() < narrow[1] < high


def test_compare_pairs_by_query() -> None:
    a = {"q1": 1.0, "q2": 0.5, "q3": 0.25, "q4": 0.0}
    b = {"q4": 0.0, "q3": 0.0, "q2": 0.0, "q1": 0.5}
    paired = compare(a, b, seed=0)
    assert paired.difference == pytest.approx(1.25 / 4)
    assert paired.p_value == 2 / 8  # three differences, all positive
    assert paired.queries == 4
    assert 0.0 <= paired.low < paired.difference < paired.high <= 0.5
    back = compare(b, a, seed=0)
    assert (back.difference, back.p_value) == (-paired.difference, paired.p_value)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ({"q1": 1.0}, {"q1": 1.0, "q2": 0.5}, "over 1 and 2 queries .* query q2 is in only one"),
        ({}, {}, "over 0 and 0 queries"),
    ],
)
def test_other_queries_are_refused(a: dict, b: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        compare(a, b, seed=0)
