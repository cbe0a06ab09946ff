"""What a judge behind an API has cost, by stage, and the budget that it keeps to."""

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from memrerank.errors import ConfigError, JudgeError
from memrerank.schema import Usage

PER = 1_000_000  # prices are for so many tokens


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in US dollars per million tokens."""

    input: float
    cached_input: float  # of input that the endpoint had in its own prompt cache
    output: float  # reasoning included
    batch: float = 1.0  # factor under the Batch API
    date: str = ""  # when it was looked up

    @classmethod
    def of(cls, fields: Mapping[str, Any], setting: str) -> "Price":
        """A price as the configuration has it; cached input costs what input does by default.

        Raises:
            ConfigError: a field is unknown, missing or no price; `setting` is named.
        """
        known = {"input", "cached_input", "output", "batch", "date"}
        given = {name: value for name, value in fields.items() if value is not None}
        amounts = [value for name, value in given.items() if name != "date"]
        sound = all(isinstance(value, int | float) and value >= 0 for value in amounts)
        if not set(given) <= known or not {"input", "output"} <= set(given) or not sound:
            raise ConfigError(
                f"{setting}={given}: give input, cached_input and output in US dollars per million "
                "tokens, 0 or more, and if you like batch (a factor) and date"
            )
        cached = given.get("cached_input", given["input"])
        date = str(given.get("date", ""))
        return cls(given["input"], cached, given["output"], given.get("batch", 1.0), date)

    def cost(self, usage: Usage) -> float:
        """US dollars for these tokens."""
        fresh = usage.input - usage.cached_input
        paid = fresh * self.input + usage.cached_input * self.cached_input
        return (paid + usage.output * self.output) / PER


class Ledger:
    """Counts calls, tokens and dollars under the `stage` that is set when they come.

    Thread-safe: a client's thread writes, others read. Without a price, cost is unknown and stays
    out of the metrics.

    Args:
        price: None where it is not known.
        budget_usd: no more than this may be spent, all stages together; None sets no bound.
        setting: the config node of price and budget, for messages.

    Raises:
        ConfigError: a budget without a price, or a negative one.
    """

    def __init__(
        self, price: Price | None = None, budget_usd: float | None = None, setting: str = "reranker"
    ) -> None:
        if budget_usd is not None and price is None:
            raise ConfigError(
                f"{setting}.budget_usd={budget_usd} needs to know what the model costs: set "
                f"{setting}.price={{input: ..., cached_input: ..., output: ..., date: ...}} in US "
                "dollars per million tokens"
            )
        if budget_usd is not None and budget_usd < 0:
            raise ConfigError(f"{setting}.budget_usd={budget_usd} is negative")
        self.price = price
        self.budget_usd = budget_usd
        self.setting = setting
        self.stage = "evaluate"
        self._counts: dict[str, Counter[str]] = {}  # stage -> what -> how many
        self._dollars: defaultdict[str, float] = defaultdict(float)  # by stage
        self._unconfirmed = 0.0  # dollars of `_dollars` that the endpoint has not confirmed
        self._reserved = 0.0  # dollars that calls in flight may come to
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """US dollars so far."""
        with self._lock:
            return float(sum(self._dollars.values()))

    def bound(self, prompt_bytes: int, most_output: int) -> float:
        """The most that a call can cost: no token is shorter than a byte. 0 without a price."""
        return 0.0 if self.price is None else self.price.cost(Usage(prompt_bytes, 0, most_output))

    def reserve(self, dollars: float) -> bool:
        """Sets money aside for a call; False where the budget does not hold it now."""
        with self._lock:
            taken = sum(self._dollars.values()) + self._reserved
            if self.budget_usd is not None and taken + dollars > self.budget_usd:
                return False
            self._reserved += dollars
            return True

    def release(self, dollars: float) -> None:
        """Gives back what was set aside."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - dollars)

    def add(self, usage: Usage, factor: float = 1.0) -> float:
        """Counts a call's tokens, and returns its cost in US dollars."""
        cost = 0.0 if self.price is None else self.price.cost(usage) * factor
        with self._lock:
            counts = self._counts.setdefault(self.stage, Counter())
            counts["calls"] += 1
            for name, tokens in asdict(usage).items():
                counts[f"{name}_tokens"] += tokens
            self._dollars[self.stage] += cost
        return cost

    def add_unanswered(self, dollars: float) -> None:
        """Counts an attempt that got no answer and may have been billed, at its worst case."""
        with self._lock:
            self._counts.setdefault(self.stage, Counter())["unanswered_attempts"] += 1
            self._dollars[self.stage] += dollars
            self._unconfirmed += dollars

    def count(self, what: str) -> None:
        """Counts something else, such as an attempt that the client's retries made good."""
        with self._lock:
            self._counts.setdefault(self.stage, Counter())[what] += 1

    def overspent(self, dollars: float) -> JudgeError:
        """The error of a call of that bound for which the budget has no room."""
        return JudgeError(
            f"{self.setting}.budget_usd={self.budget_usd}: {self.spent:.4f} US dollars are spent"
            f"{self._caveat()}, and the next call may cost up to {dollars:.4f}. Raise the budget "
            f"or lower {self.setting}.max_completion_tokens; recorded answers are kept"
        )

    def metrics(self) -> dict[str, float]:
        """`judge/{stage}/{calls, input_tokens, ..., cost_usd}`, and `judge/cost_usd` in all."""
        with self._lock:
            found = {
                f"judge/{stage}/{name}": float(value)
                for stage, counts in self._counts.items()
                for name, value in counts.items()
            }
            if self.price is not None:
                found |= {f"judge/{s}/cost_usd": value for s, value in self._dollars.items()}
                found["judge/cost_usd"] = float(sum(self._dollars.values()))
                found["judge/unconfirmed_cost_usd"] = self._unconfirmed
            return found

    def state(self) -> dict[str, Any]:
        """Everything counted and spent, JSON-serialisable."""
        with self._lock:
            return {
                "counts": {stage: dict(counts) for stage, counts in self._counts.items()},
                "dollars": dict(self._dollars),
                "unconfirmed": self._unconfirmed,
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state` returned: a resumed run keeps to one budget."""
        with self._lock:
            self._counts = {stage: Counter(counts) for stage, counts in state["counts"].items()}
            self._dollars = defaultdict(float, state["dollars"])
            self._unconfirmed = state["unconfirmed"]

    def _caveat(self) -> str:
        if math.isclose(self._unconfirmed, 0.0):
            return ""
        return f" ({self._unconfirmed:.4f} of them on attempts without an answer, at worst case)"
