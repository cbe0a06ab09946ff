"""Averages of values that come as counts."""

from collections.abc import Mapping


def mean_and_median(numbers: Mapping[int, int]) -> tuple[float, float]:
    """Mean and median of values given with how often each occurs; 0 and 0 of none."""
    total = sum(numbers.values())
    if not total:
        return 0.0, 0.0
    mean = sum(value * times for value, times in numbers.items()) / total
    low, high = (_at(numbers, place) for place in ((total - 1) // 2, total // 2))
    return mean, (low + high) / 2


def _at(numbers: Mapping[int, int], place: int) -> int:
    """The value at a place, from 0, of all values in order."""
    for value in sorted(numbers):
        place -= numbers[value]
        if place < 0:
            return value
    raise IndexError(place)
