"""What is known of an order so far: the part that answers, and what follows from them, settle."""

from collections.abc import Sequence
from itertools import combinations


class Known:
    """Who is known to be above whom; products are numbers, sets of them the bits of an integer."""

    def __init__(self, count: int) -> None:
        self.above = [0] * count
        self.below = [0] * count

    def add(self, best_first: Sequence[int]) -> None:
        """Takes in an order, with all that follows from it."""
        for better, worse in combinations(best_first, 2):
            if not self.related(better, worse):
                self._add(better, worse)

    def related(self, one: int, other: int) -> bool:
        """Whether it is known which of two is above."""
        return bool((self.above[one] | self.below[one]) >> other & 1)

    def count_above(self, one: int, placed: Sequence[int]) -> int:
        """How many that have no place yet are above."""
        done = sum(1 << place for place in placed)
        return (self.above[one] & ~done).bit_count()

    def _add(self, better: int, worse: int) -> None:
        upper = self.above[better] | 1 << better
        lower = self.below[worse] | 1 << worse
        for one in range(len(self.above)):
            if lower >> one & 1:
                self.above[one] |= upper
            if upper >> one & 1:
                self.below[one] |= lower

    def add_win(self, winner: int, beaten: Sequence[int]) -> None:
        """Takes in the winner of a set, with all that follows from it."""
        for one in beaten:
            if not self.related(winner, one):
                self._add(winner, one)
