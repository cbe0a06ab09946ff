"""How any judge is asked: candidates in a fresh order each time, invalid answers asked again, and
what came of it counted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from memrerank.errors import ConfigError
from memrerank.rerank.tally import Tally
from memrerank.schema import (
    Choice,
    Comparison,
    Failure,
    Question,
    SetwiseReranker,
    answers,
)
from memrerank.seeding import numpy_generator


class Asker:
    """Puts comparisons to a judge; itself a judge, of everything that the wrapped one can answer.

    The candidates are shown in an order drawn from (seed, query id, candidate ids, draw): the same
    for every memory and method, so that two of them differ by their memories alone. Answers come
    back as places in the comparison as it was given. An answer that names no candidate, or
    several, is asked for again in a new order, up to `max_reasks` times; tokens, cost and latency
    of all tries are those of the last one's choice. Other failures stand: the client has retried
    them already.

    Args:
        judge: usually behind its recording.
        seed: of the orders; recorded with the configuration.
        max_reasks: 0 or more.
        stage: the name under which answers are counted until `during` sets another.

    Raises:
        ConfigError: `max_reasks` is negative.
    """

    def __init__(
        self, judge: SetwiseReranker, *, seed: int, max_reasks: int, stage: str = "evaluate"
    ) -> None:
        if max_reasks < 0:
            raise ConfigError(f"judging.max_reasks={max_reasks} is negative; use 0 or more")
        self.judge = judge
        self.seed = seed
        self.max_reasks = max_reasks
        self.tally = Tally(stage)
        self.ledger: Any = _innermost(judge, "ledger")  # None: the judge costs nothing
        self._enter(stage)

    @property
    def questions(self) -> frozenset[Question]:
        """What the wrapped judge can be asked."""
        return frozenset(question for question in Question if answers(self.judge, question))

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """The candidate that this shopper would buy, of each comparison."""
        return self._ask(Question.choose, comparisons)

    def order(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """All candidates of each comparison, best first."""
        return self._ask(Question.order, comparisons)

    def score(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """A score for each candidate."""
        return self._ask(Question.score, comparisons)

    def distribution(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """How probable each candidate is to be chosen."""
        return self._ask(Question.distribution, comparisons)

    def around(self, judge: SetwiseReranker) -> "Asker":
        """The same way of asking, and the same counts, for another judge."""
        other = Asker(judge, seed=self.seed, max_reasks=self.max_reasks, stage=self.tally.stage)
        other.tally = self.tally
        return other

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Counts answers, tokens and cost under `stage` while the block runs."""
        before = self.tally.stage
        self._enter(stage)
        try:
            yield
        finally:
            self._enter(before)

    def metrics(self) -> dict[str, float]:
        """Answers, failures, places, tokens and cost so far, `judge/{stage}/{name}`."""
        spent = {} if self.ledger is None else self.ledger.metrics()
        return {**spent, **self.tally.metrics()}

    def state(self) -> dict[str, Any]:
        """What was counted and spent, JSON-serialisable."""
        spent = None if self.ledger is None else self.ledger.state()
        return {"tally": self.tally.state(), "ledger": spent}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on counting and spending from what `state` returned."""
        self.tally.restore(state["tally"])
        if self.ledger is not None and state["ledger"] is not None:
            self.ledger.restore(state["ledger"])

    def _enter(self, stage: str) -> None:
        self.tally.stage = stage
        if self.ledger is not None:
            self.ledger.stage = stage

    def _ask(self, question: Question, comparisons: Sequence[Comparison]) -> list[Choice]:
        found: list[Choice] = []
        waiting = list(range(len(comparisons)))
        for attempt in range(1 + self.max_reasks):
            asked = [
                replace(comparisons[i], attempt=attempt) if attempt else comparisons[i]
                for i in waiting
            ]
            places = [self._places(comparison) for comparison in asked]
            shown = [_shown(*pair) for pair in zip(asked, places, strict=True)]
            choices = getattr(self.judge, question)(shown) if shown else []
            self.tally.add(choices, [len(order) for order in places], repeats=attempt > 0)
            mapped = [_mapped(*pair) for pair in zip(choices, places, strict=True)]
            if not attempt:
                found = mapped
            else:
                for i, choice in zip(waiting, mapped, strict=True):
                    found[i] = _added(found[i], choice)
            waiting = [i for i in waiting if found[i].failure is Failure.invalid]
            if not waiting:
                break
        self.tally.add_unanswered(sum(choice.failure is not None for choice in found))
        return found

    def _places(self, comparison: Comparison) -> list[int]:
        """Which candidate is shown at each place."""
        ids = [product.id for product in comparison.candidates]
        by_id = sorted(range(len(ids)), key=ids.__getitem__)
        names: list[str | int] = [comparison.query_id, *(ids[i] for i in by_id)]
        drawn = numpy_generator(self.seed, "shown", *names, *comparison.draw).permutation(len(ids))
        return [by_id[i] for i in drawn]


def _shown(comparison: Comparison, places: Sequence[int]) -> Comparison:
    return replace(comparison, candidates=tuple(comparison.candidates[i] for i in places))


def _mapped(choice: Choice, places: Sequence[int]) -> Choice:
    """A choice among shown candidates as one among the given ones.

    An index beyond the candidates is no answer, whatever judge gave it.
    """
    if choice.index is not None and choice.index not in range(len(places)):
        return replace(choice, index=None, failure=Failure.invalid)
    if choice.index is None:
        return choice if choice.failure is not None else replace(choice, failure=Failure.invalid)
    back = sorted(range(len(places)), key=places.__getitem__)  # where each candidate was shown
    return replace(
        choice,
        index=places[choice.index],
        order=tuple(places[i] for i in choice.order),
        scores=tuple(choice.scores[i] for i in back) if choice.scores else (),
        probabilities=tuple(choice.probabilities[i] for i in back) if choice.probabilities else (),
    )


def _added(before: Choice, now: Choice) -> Choice:
    """The newest answer, with what the earlier ones took."""
    return replace(
        now,
        usage=before.usage + now.usage,
        cost=before.cost + now.cost,
        latency=before.latency + now.latency,
        calls=before.calls + now.calls,
        replayed=before.replayed and now.replayed,
    )


def _innermost(judge: Any, name: str) -> Any:
    """An attribute of the judge, or of the one that it wraps."""
    while judge is not None and not hasattr(judge, name):
        judge = getattr(judge, "reranker", None)
    return getattr(judge, name, None)
