"""What a chat-completions endpoint sends back, read strictly."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import openai

from memrerank.schema import Failure, Usage

REFUSED_CODES = {"content_filter", "content_policy_violation"}


NO_TOKENS = Usage()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request. It is valid where `failure` is None."""

    text: str | None  # None: nothing came; an invalid answer keeps its text
    failure: Failure | None = None
    detail: str = ""  # more words on the failure
    usage: Usage = NO_TOKENS
    cost: float = 0.0  # US dollars; 0 where the price is not known
    latency: float = 0.0  # seconds, the client's retries included
    # Of the first token: the likeliest tokens with their log-probabilities, where asked for.
    logprobs: tuple[tuple[str, float], ...] = ()


def read_completion(
    body: bytes, check: Callable[["Answer"], str | None], most_setting: str
) -> Answer:
    """The answer in a response's body; an invalid one still has its tokens.

    Args:
        check: says what is wrong with the answer, or None.
        most_setting: what to raise for answers that are cut off, for messages.
    """
    try:
        completion = json.loads(body)
        first = completion["choices"][0]
        message, finish = first["message"], first.get("finish_reason")
        text = str(message.get("content") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return Answer(None, Failure.failed, f"malformed response: {body[:200]!r}")
    usage = read_usage(completion.get("usage"))
    logprobs = read_logprobs(first.get("logprobs"))
    if finish == "content_filter" or message.get("refusal"):
        told = repr(str(message.get("refusal") or "content filter")[:200])
        return Answer(text, Failure.refused, told, usage)
    answer = Answer(text, usage=usage, logprobs=logprobs)
    fault = check(answer)
    if fault is None:
        return answer
    told = f"cut off: raise {most_setting}" if finish == "length" else f"{fault}: {text[:200]!r}"
    return replace(answer, failure=Failure.invalid, detail=told)


def read_usage(usage: Any) -> Usage:
    """The tokens that an endpoint tells; none where it tells none, or not as numbers."""
    if not isinstance(usage, Mapping):
        return Usage()
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    counts = (usage.get("prompt_tokens"), cached, usage.get("completion_tokens"))
    return Usage(*(count if isinstance(count, int) else 0 for count in counts))


def read_logprobs(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """The first token's likeliest alternatives; () where there are none."""
    try:
        tops = logprobs["content"][0]["top_logprobs"]
        return tuple((str(top["token"]), float(top["logprob"])) for top in tops)
    except (LookupError, TypeError, ValueError):
        return ()


def failure_of(error: openai.APIError) -> Failure:
    """What a failed call counts as."""
    if isinstance(error, openai.APITimeoutError):
        return Failure.timed_out
    if isinstance(error, openai.RateLimitError):
        return Failure.rate_limited
    if error.code in REFUSED_CODES:
        return Failure.refused
    return Failure.failed
