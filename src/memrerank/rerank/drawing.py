"""From a judge's scores to its answers: the draw that all judges in this process share."""

from collections.abc import Sequence

import numpy as np

from memrerank.schema import Choice, Comparison, Question
from memrerank.seeding import numpy_generator


def answer(
    question: Question, comparison: Comparison, scores: np.ndarray, temperature: float, seed: int
) -> Choice:
    """What a judge answers that has these scores, float64 [candidates].

    A choice is drawn from the softmax of scores over temperature; an order is drawn from the same
    softmax without replacement (Plackett-Luce). At temperature 0 the best candidate always wins,
    and of equals the one with the smaller id. Scores come back as they are.
    """
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
        *_in(order, ids),
        *comparison.draw,
    )
    dealt = np.empty(len(ids))
    dealt[order] = generator.gumbel(size=len(ids))
    return dealt


def _in(order: Sequence[int], ids: Sequence[str]) -> list[str]:
    return [ids[place] for place in order]
