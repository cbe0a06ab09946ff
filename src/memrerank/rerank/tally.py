"""What came of a judge's answers, by stage: rates of failures, and how often each place wins."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from memrerank.schema import Choice, Failure

ASKED, REASKED, UNANSWERED, REPLAYED = "asked", "reasked", "unanswered", "replayed"


class Tally:
    """Counts of answers under the `stage` that is set when they come.

    A place is where a candidate was shown. A judge without position bias lets each place win
    equally often, since candidates are shown in random order.
    """

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.counts: dict[str, Counter[str]] = {}  # by stage
        self.wins: dict[str, dict[int, Counter[int]]] = {}  # stage -> candidates shown -> place

    def add(self, choices: Sequence[Choice], sizes: Sequence[int], *, repeats: bool) -> None:
        """Counts answers as the judge gave them: places in the order that was shown.

        Args:
            choices: one per question.
            sizes: how many candidates each question showed.
            repeats: whether these questions had been asked before.
        """
        counts = self.counts.setdefault(self.stage, Counter())
        wins = self.wins.setdefault(self.stage, {})
        counts[ASKED] += len(choices)
        counts[REASKED] += len(choices) * repeats
        for choice, size in zip(choices, sizes, strict=True):
            counts[REPLAYED] += choice.replayed
            if choice.failure is not None:
                counts[choice.failure.value] += 1
            elif choice.index is not None:
                wins.setdefault(size, Counter())[choice.index] += 1

    def add_unanswered(self, questions: int) -> None:
        """Counts questions that had no valid answer in the end."""
        self.counts.setdefault(self.stage, Counter())[UNANSWERED] += questions

    def place_shares(self, stage: str) -> list[float]:
        """How often each place won, among comparisons of the most frequent size; [] for none."""
        wins = self.wins.get(stage, {})
        if not wins:
            return []
        size, places = max(wins.items(), key=lambda item: (item[1].total(), item[0]))
        return [places[place] / places.total() for place in range(size)]

    def metrics(self) -> dict[str, float]:
        """Flat metrics, `judge/{stage}/{name}`; places count from 1. Rates are of answers."""
        found: dict[str, float] = {}
        for stage, counts in self.counts.items():
            asked = max(counts[ASKED], 1)
            rates = {f"{kind.value}_rate": counts[kind.value] / asked for kind in Failure}
            rates |= {f"{name}_rate": counts[name] / asked for name in (REASKED, REPLAYED)}
            shares = {f"place_{i}": s for i, s in enumerate(self.place_shares(stage), start=1)}
            values = {"answers": counts[ASKED], UNANSWERED: counts[UNANSWERED], **rates, **shares}
            found |= {f"judge/{stage}/{name}": float(value) for name, value in values.items()}
        return found

    def state(self) -> dict[str, Any]:
        """Everything that was counted, JSON-serialisable."""
        wins = {
            stage: {
                str(size): {str(p): n for p, n in places.items()} for size, places in sets.items()
            }
            for stage, sets in self.wins.items()
        }
        return {"counts": {stage: dict(c) for stage, c in self.counts.items()}, "wins": wins}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on counting from what `state` returned."""
        self.counts = {stage: Counter(counts) for stage, counts in state["counts"].items()}
        self.wins = {
            stage: {
                int(size): Counter({int(place): n for place, n in places.items()})
                for size, places in sets.items()
            }
            for stage, sets in state["wins"].items()
        }
