"""From a judge's scores to its answers: the draw that all judges in this process share."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memrerank.errors import ConfigError
from memrerank.schema import Choice, Comparison, Question
from memrerank.seeding import numpy_generator


class ScoreReranker:
    """A judge made of scores: what is common to all judges in this process.

    A choice is drawn from the softmax of the scores over `temperature`; an order is drawn from the
    same softmax without replacement (Plackett-Luce). At temperature 0 the best candidate always
    wins, and of equals the one with the smaller id. Draws are seeded and go with the products:
    neither the batch that a comparison is in nor the order in which candidates are shown changes
    which product wins.

    Args:
        temperature: in units of the scores; 0 or more.
        seed: of the draws.

    Raises:
        ConfigError: `temperature` is negative.
    """

    def __init__(self, temperature: float, seed: int) -> None:
        if temperature < 0:
            raise ConfigError(f"reranker.temperature={temperature} is negative; use 0 or more")
        self.temperature = temperature
        self.seed = seed

    def scores(self, comparisons: Sequence[Comparison]) -> list[np.ndarray]:
        """Float64 [candidates] per comparison; each judge has its own way."""
        raise TypeError(f"{type(self).__name__} does not say how it scores")

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """One answer per comparison, in order; latency is the batch's time shared out.

        Raises:
            ConfigError: the model cannot be loaded.
            JudgeError: the model cannot judge this.
        """
        return self._answer(Question.choose, comparisons)

    def order(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, all candidates, best first."""
        return self._answer(Question.order, comparisons)

    def score(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, each candidate's score, without any draw."""
        return self._answer(Question.score, comparisons)

    def distribution(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, how probable each candidate is; the index is the likeliest one."""
        return self._answer(Question.distribution, comparisons)

    def _answer(self, question: Question, comparisons: Sequence[Comparison]) -> list[Choice]:
        started = time.perf_counter()
        choices = [
            _choice(question, comparison, scores, self.temperature, self.seed)
            for comparison, scores in zip(comparisons, self.scores(comparisons), strict=True)
        ]
        latency = (time.perf_counter() - started) / max(1, len(comparisons))
        return [replace(choice, latency=latency) for choice in choices]


def _choice(
    question: Question, comparison: Comparison, scores: np.ndarray, temperature: float, seed: int
) -> Choice:
    """What a judge answers that has these scores, float64 [candidates]."""
    if question is Question.score:
        return Choice(int(np.argmax(scores)), scores=tuple(scores.tolist()))
    if question is Question.distribution:
        shares = probabilities(comparison, scores, temperature)
        return Choice(int(np.argmax(shares)), probabilities=tuple(shares.tolist()))
    noisy = scores
    if temperature > 0:
        # The largest of logits plus Gumbel noise is a draw of their softmax.
        noisy = scores / temperature + luck(comparison, seed)
    ids = [product.id for product in comparison.candidates]
    places = sorted(range(len(ids)), key=lambda place: (-noisy[place], ids[place]))
    return Choice(places[0], order=tuple(places) if question is Question.order else ())


def probabilities(comparison: Comparison, scores: np.ndarray, temperature: float) -> np.ndarray:
    """How probable each candidate is to be chosen, float64 [candidates]."""
    if temperature > 0:
        weights = np.exp((scores - scores.max()) / temperature)
        return weights / weights.sum()
    ids = [product.id for product in comparison.candidates]
    best = min(range(len(ids)), key=lambda place: (-scores[place], ids[place]))
    return np.eye(len(ids))[best]


def luck(comparison: Comparison, seed: int) -> np.ndarray:
    """Gumbel noise [candidates], dealt out in the order of the candidates' ids.

    It is seeded by (seed, query id, query, memory, candidate ids, draw): a candidate's luck does
    not depend on where it is shown.
    """
    ids = [product.id for product in comparison.candidates]
    order = sorted(range(len(ids)), key=ids.__getitem__)
    generator = numpy_generator(
        seed,
        "choose",
        comparison.query_id,
        comparison.query,
        comparison.memory.text,
        *(ids[place] for place in order),
        *comparison.draw,
    )
    dealt = np.empty(len(ids))
    dealt[order] = generator.gumbel(size=len(ids))
    return dealt
