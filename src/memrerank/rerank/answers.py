"""How a language model's answer to a setwise question is read: strictly, or not at all."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from memrerank.rerank.completions import Answer
from memrerank.rerank.prompting import LABELS
from memrerank.schema import Choice, Failure, Question

LEAST_LABEL_MASS = 0.5  # below, the model was about to write something other than a label

_LEAD_IN = r"(?:(?i:the\s+)?(?i:final\s+)?(?i:answer|choice|label|product|order)(?i:\s+is)?\W+)?"
_ONE = re.compile(rf"\W*{_LEAD_IN}([A-Z])\W*")
_ALL = re.compile(rf"\W*{_LEAD_IN}([A-Z](?:\s*[>,]\s*[A-Z])*)\W*")


def parse_choice(text: str, candidates: int) -> int | None:
    """The place that an answer names; None unless the answer is one valid label and no more.

    Punctuation around the label and a lead-in such as "Answer:" are allowed; nothing else is.
    """
    found = _ONE.fullmatch(text)
    return _place(found.group(1), candidates) if found else None


def parse_order(text: str, candidates: int) -> tuple[int, ...] | None:
    """The places in the order that an answer gives; None unless it names each label once.

    Labels stand between `>` or commas; a lead-in and punctuation around them are allowed.
    """
    found = _ALL.fullmatch(text)
    return _permutation(re.findall("[A-Z]", found.group(1)), candidates) if found else None


def parse_choice_json(text: str, candidates: int) -> int | None:
    """As `parse_choice`, of `{"label": "B"}`."""
    value = _json_field(text, "label")
    return _place(value, candidates) if isinstance(value, str) else None


def parse_order_json(text: str, candidates: int) -> tuple[int, ...] | None:
    """As `parse_order`, of `{"order": ["B", "A"]}`."""
    value = _json_field(text, "order")
    return _permutation(value, candidates) if isinstance(value, list) else None


def label_probabilities(
    logprobs: Sequence[tuple[str, float]], candidates: int
) -> tuple[float, ...] | None:
    """The labels' probabilities among each other, of the first token's log-probabilities.

    Tokens that are a label but for white space count for it; a label that is not among the tokens
    has none. None where labels make up less than LEAST_LABEL_MASS.
    """
    mass = [0.0] * candidates
    for token, logprob in logprobs:
        place = _place(token.strip(), candidates)
        if place is not None:
            mass[place] += math.exp(logprob)
    total = sum(mass)
    return tuple(share / total for share in mass) if total >= LEAST_LABEL_MASS else None


def read_choice(
    question: Question, answer: Answer, candidates: int, *, structured: bool
) -> Choice | None:
    """What an answer says, without what it took; None where it says nothing valid."""
    text = answer.text or ""
    if question is Question.order:
        order = (parse_order_json if structured else parse_order)(text, candidates)
        return None if order is None else Choice(order[0], order=order)
    if question is Question.distribution:
        shares = label_probabilities(answer.logprobs, candidates)
        return None if shares is None else Choice(_largest(shares), probabilities=shares)
    index = (parse_choice_json if structured else parse_choice)(text, candidates)
    return None if index is None else Choice(index)


def choice_reader(question: Question, *, structured: bool) -> Callable[[Answer, int], Choice]:
    """Makes Choices of answers to a question, each with a number of candidates."""

    def read(answer: Answer, candidates: int) -> Choice:
        found = None
        if answer.failure is None:
            found = read_choice(question, answer, candidates, structured=structured)
        said = found or Choice(None, failure=answer.failure or Failure.invalid)
        return replace(said, usage=answer.usage, cost=answer.cost, latency=answer.latency)

    return read


def answer_schema(labels: str, question: Question) -> dict[str, Any]:
    """The `response_format` that holds an answer to its form."""
    label: dict[str, Any] = {"type": "string", "enum": list(labels)}
    field: dict[str, Any] = {"label": label}
    if question is Question.order:
        field = {"order": {"type": "array", "items": label}}
    schema = {
        "type": "object",
        "properties": field,
        "required": list(field),
        "additionalProperties": False,
    }
    form = {"name": "answer", "strict": True, "schema": schema}
    return {"type": "json_schema", "json_schema": form}


def _place(label: object, candidates: int) -> int | None:
    if not isinstance(label, str) or len(label) != 1:
        return None
    place = LABELS.find(label)
    return place if 0 <= place < candidates else None


def _permutation(labels: Sequence[object], candidates: int) -> tuple[int, ...] | None:
    places = [_place(label, candidates) for label in labels]
    known = tuple(place for place in places if place is not None)
    complete = len(places) == candidates == len(set(known))
    return known if complete else None


def _json_field(text: str, name: str) -> Any:
    """The value of the one field of a JSON object; None where it is not that."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value[name] if isinstance(value, dict) and list(value) == [name] else None


def _largest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)
