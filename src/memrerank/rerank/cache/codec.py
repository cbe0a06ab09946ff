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
        JudgeError: the answer has numbers that are not finite.
    """
    value: dict[str, Any] = {"index": None if choice.index is None else int(choice.index)}
    if choice.failure is not None:
        value["failure"] = choice.failure.value
    if choice.order:
        value["order"] = [int(place) for place in choice.order]
    for name in ("scores", "probabilities"):
        if numbers := getattr(choice, name):
            value[name] = [float(number) for number in numbers]
            if not all(map(isfinite, value[name])):
                raise JudgeError(
                    f"judge {judge}: its {name} for query {comparison.query_id} are not all "
                    f"finite: {value[name]}; nothing can be ranked by them"
                )
    usage = choice.usage
    value["usage"] = [usage.input, usage.cached_input, usage.output]
    value["cost"], value["latency"] = choice.cost, choice.latency
    value["about"] = {
        "question": question.value,
        "judge": judge,
        "query_id": comparison.query_id,
        "draw": list(comparison.draw),
        "products": [product.id for product in comparison.candidates],
    }
    return value


def is_answer(value: Any) -> bool:
    """Whether a value is meant as a judge's answer; others keep other things in such files."""
    return isinstance(value, dict) and "index" in value


def decode_choice(value: Mapping[str, Any]) -> Choice:
    """The recorded answer, marked as replayed.

    Raises:
        ValueError: the value is no recorded answer.
    """
    try:
        index, failure = value["index"], value.get("failure")
        if (index is None) is (failure is None):
            raise ValueError("a recorded answer needs either an index or a failure")
        size = len(value["about"]["products"])
        input_tokens, cached_tokens, output_tokens = value["usage"]
        choice = Choice(
            index,
            tuple(value.get("order", ())),
            tuple(value.get("scores", ())),
            tuple(value.get("probabilities", ())),
            None if failure is None else _FAILURES[failure],
            Usage(input_tokens, cached_tokens, output_tokens),
            value["cost"],
            value["latency"],
            1,
            True,
        )
        if index is not None and (type(index) is not int or not 0 <= index < size):
            raise ValueError(f"index {index!r} is none of {size} products")
        if choice.order and sorted(choice.order) != list(range(size)):
            raise ValueError(f"order {choice.order} is not one of {size} products")
        for numbers in (choice.scores, choice.probabilities):
            if numbers and len(numbers) != size:
                raise ValueError(f"{len(numbers)} numbers for {size} products")
        _check_numbers(choice.scores, choice.probabilities)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a recorded answer ({type(error).__name__}: {error})") from error
    return choice


def _check_numbers(*groups: Sequence[float]) -> None:
    for number in (number for group in groups for number in group):
        if not isfinite(number):
            raise ValueError(f"{number} is not finite")
