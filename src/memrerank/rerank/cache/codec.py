"""Choices as JSON, and the keys under which they are kept.

Written out field by field: this runs once for every answer that a training or a table needs.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from memrerank.schema import Choice, Comparison, Failure, Question, Usage
from memrerank.storage import canonical_json


class Keys:
    """Keys of questions to one judge.

    Args:
        namespace: all that the judge's answers depend on besides the question; JSON-serialisable.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = canonical_json(dict(namespace))

    def key(self, question: Question, comparison: Comparison) -> str:
        """sha256 (hex) of the canonical request: judge, question, texts as shown, draw."""
        memory = comparison.memory
        request = json.dumps(
            [
                question.value,
                comparison.query_id,
                comparison.query,
                memory.within,
                memory.cross,
                [(product.id, product.text) for product in comparison.candidates],
                comparison.draw,
            ],
            separators=(",", ":"),
            ensure_ascii=False,
        )
        # Half a surrogate pair, which broken texts hold, has no UTF-8.
        text = f"{self._namespace}\n{request}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(text).hexdigest()


def encode_choice(
    choice: Choice, question: Question, comparison: Comparison, judge: str
) -> dict[str, Any]:
    """The JSON value of an answer, with what people and exports want to know of it in `about`."""
    value: dict[str, Any] = {"index": choice.index}
    if choice.failure is not None:
        value["failure"] = choice.failure.value
    for name in ("order", "scores", "probabilities"):
        if numbers := getattr(choice, name):
            value[name] = list(numbers)
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


def decode_choice(value: Mapping[str, Any]) -> Choice:
    """The recorded answer, marked as replayed.

    Raises:
        ValueError: the value is no recorded answer.
    """
    try:
        failure = value.get("failure")
        choice = Choice(
            value["index"],
            tuple(value.get("order", ())),
            tuple(value.get("scores", ())),
            tuple(value.get("probabilities", ())),
            None if failure is None else Failure(failure),
            Usage(*value["usage"]),
            value["cost"],
            value["latency"],
            1,
            True,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a recorded answer ({type(error).__name__}: {error})") from error
    if (choice.index is None) is (choice.failure is None):
        raise ValueError("a recorded answer needs either an index or a failure")
    return choice
