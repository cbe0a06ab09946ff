"""Choices as JSON, and the keys under which they are kept.

Written out field by field: this runs once for every answer that a training or a table needs.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

from memrerank.errors import JudgeError
from memrerank.schema import Choice, Comparison, Failure, Memory, Product, Question, Usage
from memrerank.storage import canonical_json

DIGESTED = 50_000  # products whose text is remembered by its digest; about 100 MB at most

_FAILURES = {failure.value: failure for failure in Failure}


class Keys:
    """Keys of questions to one judge.

    Args:
        namespace: all that the judge's answers depend on besides the question; JSON-serialisable.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = _sha256(canonical_json(dict(namespace)))

    def key(self, question: Question, comparison: Comparison) -> str:
        """sha256 (hex) of the canonical request: judge, question, texts as shown, draw.

        Long texts, which come back in many questions, stand in the request by their own sha256.
        """
        request = [
            self._namespace,
            question.value,
            comparison.query_id,
            comparison.query,
            _memory_digest(comparison.memory),
            [_product_digest(product) for product in comparison.candidates],
            comparison.draw,
        ]
        return _sha256(json.dumps(request))


@lru_cache(DIGESTED)
def _product_digest(product: Product) -> str:
    return _sha256(json.dumps([product.id, product.text]))


@lru_cache(1024)
def _memory_digest(memory: Memory) -> str:
    return _sha256(json.dumps([memory.within, memory.cross]))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def encode_choice(
    choice: Choice, question: Question, comparison: Comparison, judge: str
) -> dict[str, Any]:
    """The JSON value of an answer, with what people and exports want to know of it in `about`.

    Raises:
        JudgeError: the judge gave what is no answer to that question.
    """
    failure, usage = choice.failure, choice.usage
    if choice.index is None and failure is None:
        failure = Failure.invalid
    value: dict[str, Any] = {
        "index": None if choice.index is None else int(choice.index),
        "usage": [int(n) for n in (usage.input, usage.cached_input, usage.output)],
        "cost": float(choice.cost),
        "latency": float(choice.latency),
        "about": {
            "question": question.value,
            "judge": judge,
            "query_id": comparison.query_id,
            "draw": list(comparison.draw),
            "products": [product.id for product in comparison.candidates],
        },
    }
    if failure is not None:
        value["failure"] = failure.value
    if choice.order:
        value["order"] = [int(place) for place in choice.order]
    if choice.scores:
        value["scores"] = [float(number) for number in choice.scores]
    if choice.probabilities:
        value["probabilities"] = [float(number) for number in choice.probabilities]
    try:
        decode_choice(value)
    except ValueError as error:
        raise JudgeError(
            f"judge {judge}: what it answered to {question.value} for query {comparison.query_id} "
            f"cannot be recorded: {error}"
        ) from error
    return value


def is_answer(value: Any) -> bool:
    """Whether a value is meant as a judge's answer; such files may keep other things, too."""
    return isinstance(value, dict) and "index" in value


def decode_answer(value: Mapping[str, Any]) -> Choice:
    """As `decode_choice`, with a check of what the value says of its question.

    Raises:
        ValueError: the value is no recorded answer.
    """
    choice = decode_choice(value)
    about = value["about"]
    texts = [about.get(name) for name in ("question", "judge", "query_id")]
    products, draw = about["products"], about.get("draw")
    named = isinstance(products, list) and all(isinstance(name, str) for name in products)
    drawn = isinstance(draw, list) and all(type(number) is int for number in draw)
    if not (named and drawn and all(isinstance(text, str) for text in texts)):
        raise ValueError(f"what it says of its question is incomplete: {about}")
    if about["question"] not in set(Question):
        raise ValueError(f"it answers no known question: {about['question']!r}")
    return choice


def decode_choice(value: Mapping[str, Any]) -> Choice:
    """The recorded answer, marked as replayed.

    Raises:
        ValueError: the value is no recorded answer.
    """
    try:
        index, failure = value["index"], value.get("failure")
        tokens, cost, latency = value["usage"], value["cost"], value["latency"]
        order, scores = value.get("order", ()), value.get("scores", ())
        probabilities = value.get("probabilities", ())
        if (index is None) is (failure is None):
            raise ValueError("a recorded answer needs either an index or a failure")
        _check_numbers(index, tokens, (*scores, *probabilities, cost, latency))
        _check_sizes(len(value["about"]["products"]), order, scores, probabilities)
        return Choice(
            index,
            tuple(order),
            tuple(scores),
            tuple(probabilities),
            None if failure is None else _FAILURES[failure],
            Usage(*tokens),
            cost,
            latency,
            1,
            True,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a recorded answer ({type(error).__name__}: {error})") from error


def _check_numbers(index: int | None, tokens: Sequence[int], others: Sequence[float]) -> None:
    # An index beyond the candidates is a judge's answer too, and counts as an invalid one later.
    if not (index is None or type(index) is int):
        raise ValueError(f"the index {index!r} is no whole number")
    if len(tokens) != 3 or {*map(type, tokens)} != {int}:
        raise ValueError(f"usage {tokens!r} is not three whole numbers")
    if not all(map(isfinite, others)):
        raise ValueError("it has numbers that are not finite")


def _check_sizes(size: int, order: Sequence[int], *numbers: Sequence[float]) -> None:
    if order and sorted(order) != list(range(size)):
        raise ValueError(f"the order {order!r} is none of {size} products")
    for group in numbers:
        if group and len(group) != size:
            raise ValueError(f"{len(group)} numbers are given for {size} products")
