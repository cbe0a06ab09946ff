"""Is one method better than another on the same queries, and how sure is that?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from memrerank.errors import DataError
from memrerank.seeding import numpy_generator

EXACT_UP_TO = 16  # differing queries; 2^16 sign patterns are all tried
CHUNK = 1_000  # resamples held in memory at once


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Method a against method b over the same queries."""

    difference: float  # mean of a - mean of b
    low: float  # bootstrap interval of the difference
    high: float
    p_value: float  # two-sided
    queries: int


def compare(
    a: Mapping[str, float],
    b: Mapping[str, float],
    *,
    seed: int,
    samples: int = 10_000,
    level: float = 0.95,
) -> PairedComparison:
    """Compares per-query values (query id -> value) of two methods.

    Raises:
        DataError: the two do not hold the same queries, or none.
    """
    if a.keys() != b.keys() or not a:
        odd = sorted(a.keys() ^ b.keys())
        raise DataError(
            f"results over {len(a)} and {len(b)} queries cannot be compared"
            + (f": query {odd[0]} is in only one of them ({len(odd)} such)" if odd else "")
            + "; evaluate both on the same queries"
        )
    differences = np.array([a[query_id] - b[query_id] for query_id in a])
    low, high = bootstrap_interval(differences, seed=seed, samples=samples, level=level)
    p_value = sign_flip_p_value(differences, seed=seed, samples=samples)
    return PairedComparison(float(differences.mean()), low, high, p_value, len(differences))


def sign_flip_p_value(differences: np.ndarray, *, seed: int, samples: int = 10_000) -> float:
    """The two-sided p-value of the paired permutation test; `differences` is [queries].

    Under the null hypothesis each difference could as well have the other sign. With up to
    EXACT_UP_TO differences other than 0 all sign patterns are tried; beyond, `samples` random
    ones, and the observed pattern counts as one more (so p is never 0).
    """
    differences = differences[differences != 0]
    if not differences.size:
        return 1.0
    observed = abs(differences.sum())
    reached = observed - 1e-9 * np.abs(differences).sum()  # sums that differ by rounding are equal
    exact = differences.size <= EXACT_UP_TO
    signs = (
        _all_signs(differences.size) if exact else _random_signs(differences.size, samples, seed)
    )
    count = sum(int((np.abs(part @ differences) >= reached).sum()) for part in signs)
    return count / 2**differences.size if exact else (1 + count) / (1 + samples)


def bootstrap_interval(
    values: np.ndarray, *, seed: int, samples: int = 10_000, level: float = 0.95
) -> tuple[float, float]:
    """The percentile interval of the mean of `values` [queries], from resampled queries."""
    generator = numpy_generator(seed, "bootstrap")
    means = [
        values[generator.integers(0, values.size, size=(size, values.size))].mean(axis=1)
        for size in _chunks(samples)
    ]
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def _all_signs(size: int) -> Iterator[np.ndarray]:
    """Every pattern of `size` signs, in chunks [patterns, size]."""
    for start in range(0, 2**size, CHUNK):
        patterns = np.arange(start, min(start + CHUNK, 2**size))[:, None]
        yield 1.0 - 2.0 * (patterns >> np.arange(size) & 1)


def _random_signs(size: int, samples: int, seed: int) -> Iterator[np.ndarray]:
    """`samples` random patterns of `size` signs, in chunks [patterns, size]."""
    generator = numpy_generator(seed, "sign flips")
    for rows in _chunks(samples):
        yield 1.0 - 2.0 * generator.integers(0, 2, size=(rows, size))


def _chunks(total: int) -> Iterator[int]:
    for start in range(0, total, CHUNK):
        yield min(CHUNK, total - start)
