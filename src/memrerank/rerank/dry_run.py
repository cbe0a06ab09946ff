"""A judge that is never asked: it tells what asking would take."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memrerank.rerank.ledger import Price
from memrerank.schema import Choice, Comparison, Question, Usage
from memrerank.seeding import numpy_generator

CHARACTERS_PER_TOKEN = 4  # English text, by OpenAI's own rule of thumb
TOKENS_PER_MESSAGE = 4  # the marks around a chat message

Request = Callable[[Comparison, Question], Mapping[str, Any]]
Lookup = Callable[[Question, Sequence[Comparison]], list[Choice | None]]


@dataclass(frozen=True, slots=True)
class Rates:
    """What one answer takes."""

    usual_output: int  # tokens
    most_output: int  # tokens
    price: Price | None  # None: not known
    batch: bool  # through the Batch API

    def cost(self, inputs: int, outputs: int) -> float | None:
        """US dollars for so many tokens; None where the price is not known."""
        if self.price is None:
            return None
        return self.price.cost(Usage(inputs, 0, outputs)) * (self.price.batch if self.batch else 1)


class Estimate:
    """Calls and prompt tokens by `stage`; takes the place of a judge's ledger."""

    def __init__(self) -> None:
        self.stage = ""
        self.calls: Counter[str] = Counter()
        self.input_tokens: Counter[str] = Counter()

    def add(self, tokens: int) -> None:
        """Counts one call."""
        self.calls[self.stage] += 1
        self.input_tokens[self.stage] += tokens

    def scale(self, stage: str, factor: float) -> None:
        """Multiplies a stage of which only a sample, or one of several rounds, was counted."""
        self.calls[stage] = round(self.calls[stage] * factor)
        self.input_tokens[stage] = round(self.input_tokens[stage] * factor)

    def metrics(self) -> dict[str, float]:
        """The calls, as a ledger names them."""
        return {f"judge/{stage}/calls": float(n) for stage, n in self.calls.items()}


class DryJudge:
    """Answers everything at random, from a seed, and counts what the real questions would take.

    Random answers stand for the judge's: how many comparisons a ranking takes depends on them a
    little.

    Args:
        request: makes the request that the real judge would send; None for judges that send none.
        count_tokens: of a text.
        seed: of the answers.
        recorded: finds recorded answers, which count as nothing; None: there are none.
    """

    def __init__(
        self,
        request: Request | None,
        count_tokens: Callable[[str], int],
        seed: int,
        recorded: Lookup | None = None,
    ) -> None:
        self.ledger = Estimate()
        self._request = request
        self._count = count_tokens
        self._seed = seed
        self._recorded = recorded

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """A random candidate each."""
        return self._answers(Question.choose, comparisons)

    def order(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """A random order each."""
        return self._answers(Question.order, comparisons)

    def score(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """Random scores."""
        return self._answers(Question.score, comparisons)

    def distribution(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """Every candidate equally probable."""
        return self._answers(Question.distribution, comparisons)

    def _answers(self, question: Question, comparisons: Sequence[Comparison]) -> list[Choice]:
        known: list[Choice | None] = [None] * len(comparisons)
        if self._recorded is not None:
            known = self._recorded(question, comparisons)
        return [
            choice or self._answer(comparison, question)
            for choice, comparison in zip(known, comparisons, strict=True)
        ]

    def _answer(self, comparison: Comparison, question: Question) -> Choice:
        self.ledger.add(self._tokens(comparison, question))
        ids = sorted(product.id for product in comparison.candidates)
        generator = numpy_generator(self._seed, "dry", comparison.query_id, *ids, *comparison.draw)
        places = generator.permutation(len(ids)).tolist()
        even = (1 / len(ids),) * len(ids)
        return Choice(places[0], tuple(places), tuple(float(place) for place in places), even)

    def _tokens(self, comparison: Comparison, question: Question) -> int:
        if self._request is None:
            return 0
        messages = self._request(comparison, question)["messages"]
        return sum(self._count(one["content"]) + TOKENS_PER_MESSAGE for one in messages)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is, without a tokenizer."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def estimate_table(estimate: Estimate, rates: Rates | None) -> str:
    """Markdown: what each stage and all of them would take.

    Args:
        rates: None for a judge that sends no tokens anywhere.
    """
    head = ["stage", "calls", "input tokens", "output tokens", "US dollars"]
    lines = [f"| {' | '.join(head)} |", "| --- | ---: | ---: | ---: | ---: |"]
    totals = [("all", sum(estimate.calls.values()), sum(estimate.input_tokens.values()))]
    stages = [(name, calls, estimate.input_tokens[name]) for name, calls in estimate.calls.items()]
    for name, calls, inputs in stages + (totals if len(stages) > 1 else []):
        lines.append(f"| {name} | {calls:,} | {' | '.join(_taken(calls, inputs, rates))} |")
    return "\n".join(lines)


def _taken(calls: int, inputs: int, rates: Rates | None) -> tuple[str, str, str]:
    """The cells of tokens and cost; two numbers are the usual case and the most there can be."""
    if rates is None:
        return "–", "–", "–"
    outputs = calls * rates.usual_output, calls * rates.most_output
    costs = [rates.cost(inputs, output) for output in outputs]
    dollars = " to ".join("?" if cost is None else f"{cost:,.4f}" for cost in costs)
    return f"{inputs:,}", f"{outputs[0]:,} to {outputs[1]:,}", "?" if None in costs else dollars
