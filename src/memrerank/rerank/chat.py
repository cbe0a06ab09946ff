"""The one client of OpenAI-compatible APIs, for every part that asks a chat model.

Asynchronous inside, synchronous at the edge: one event loop in a background thread serves every
batch, with at most `max_concurrency` requests in flight. Retries, backoff and Retry-After are the
client's own. What still fails is counted by kind; what can never succeed (a refused key, spent
credit, an unknown model or parameter) stops the run at once.
"""

import asyncio
import json
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.fatal import fatal_reason

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Messages = Sequence[Mapping[str, str]]
Check = Callable[[int, str], str | None]  # what is wrong with the text of that answer, if anything

LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
NO_KEY = "none"  # the client insists on a key, a local server ignores it
PRICES = {"prompt", "completion"}
WINDOW = 200  # newest calls over which the failure rate is taken
WINDOW_FLOOR = 100  # with fewer calls than this the rate is taken as if there were this many


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatSettings:
    """A model at an OpenAI-compatible endpoint, and how it is asked."""

    model: str  # its name at the endpoint
    base_url: str | None  # None: the client's own default
    # The environment variable that holds the key. It may be unset for a server on this machine; an
    # empty name says that the server needs no key.
    api_key_env: str
    max_completion_tokens: int  # of one answer, reasoning included
    max_concurrency: int  # requests in flight at once
    timeout: float  # seconds for one attempt
    max_retries: int  # by the client, after the first attempt
    reasoning_effort: str | None = None  # sent only when not None, as the next two
    temperature: float | None = None
    top_p: float | None = None
    prices: Mapping[str, float] | None = None  # US dollars per million tokens, see PRICES
    max_failure_rate: float = 0.05  # share of the newest calls without a valid answer that stops
    group: str = "reranker"  # the config node of these settings, for messages


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request. It is valid where `failure` is None."""

    text: str | None  # None: nothing came; an invalid answer keeps its text
    tokens: int = 0  # prompt and completion tokens
    cost: float = 0.0  # US dollars
    latency: float = 0.0  # seconds, the client's retries included
    failure: str | None = None  # the kind that it is counted under


class ChatClient:
    """Sends chat requests, many at a time.

    `calls` counts the requests that ended, `failures` those without a valid answer by kind.

    Raises:
        ConfigError: the key is missing, `prices` has other names, or no request may be in flight.
    """

    def __init__(self, settings: ChatSettings) -> None:
        group = settings.group
        if settings.prices is not None and set(settings.prices) != PRICES:
            names = " and ".join(sorted(PRICES))
            raise ConfigError(f"{group}.prices={settings.prices}: give {names}")
        if settings.max_concurrency < 1:
            raise ConfigError(
                f"{group}.max_concurrency={settings.max_concurrency} must be 1 or more"
            )
        self.settings = settings
        self.prices = dict(settings.prices or dict.fromkeys(PRICES, 0.0))
        self.failures: Counter[str] = Counter()
        self.calls = 0
        self._recent: deque[bool] = deque(maxlen=WINDOW)  # True: no valid answer
        self._slots = asyncio.Semaphore(settings.max_concurrency)
        self._client = AsyncOpenAI(
            api_key=_read_key(settings),
            base_url=settings.base_url,
            timeout=settings.timeout,
            max_retries=settings.max_retries,
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [_spent_is_final]}),
        )
        self.where = f"{settings.model} at {self._client.base_url}"
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name=group, daemon=True).start()

    def request(self, messages: Messages) -> dict[str, Any]:
        """What is sent for a conversation; equal conversations give equal requests."""
        settings = self.settings
        parameters = {
            "max_completion_tokens": settings.max_completion_tokens,
            "reasoning_effort": settings.reasoning_effort,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
        }
        sent = {name: value for name, value in parameters.items() if value is not None}
        return {"model": settings.model, "messages": list(messages), **sent}

    def complete(
        self,
        requests: Sequence[Mapping[str, Any]],
        on_answer: Callable[[int, Answer], None] | None = None,
        *,
        check: Check | None = None,
    ) -> list[Answer]:
        """One answer per request, in order.

        Args:
            requests: as `request` makes them.
            on_answer: called with each request's place and its answer as soon as there is one, in
                the background thread; what it raises ends the batch.
            check: says what is wrong with an answer's text (a short name, which is counted as a
                failure), or None. Without one, any whole answer with a text is valid.

        Raises:
            JudgeError: the endpoint can never answer, or too many calls failed. Answers that had
                come by then have been handed to `on_answer`.
        """
        return self._wait(self._complete_all(requests, on_answer, check or _some_text))

    def close(self) -> None:
        """Closes the connections and ends the background thread."""
        self._wait(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C too: leave no request running
            future.cancel()
            raise

    async def _complete_all(
        self,
        requests: Sequence[Mapping[str, Any]],
        on_answer: Callable[[int, Answer], None] | None,
        check: Check,
    ) -> list[Answer]:
        async def one(place: int, request: Mapping[str, Any]) -> Answer:
            answer, detail = await self._ask(place, request, check)
            if on_answer is not None:
                on_answer(place, answer)
            self._count(answer.failure, detail)
            return answer

        try:
            async with asyncio.TaskGroup() as running:
                tasks = [running.create_task(one(*pair)) for pair in enumerate(requests)]
        except BaseExceptionGroup as group:  # the first error has ended all the other tasks
            first = group.exceptions[0]
            raise first from first.__cause__
        return [task.result() for task in tasks]

    async def _ask(
        self, place: int, request: Mapping[str, Any], check: Check
    ) -> tuple[Answer, str]:
        """An answer and, where it is not valid, more words on why."""
        async with self._slots:
            started = time.perf_counter()
            try:
                completion = await self._client.chat.completions.create(**request)
            except (openai.APIError, json.JSONDecodeError) as error:  # the latter: a broken body
                if isinstance(error, openai.APIError):
                    self._stop_if_fatal(error)
                latency = time.perf_counter() - started
                return Answer(None, latency=latency, failure=_kind(error)), self._told(error)
            latency = time.perf_counter() - started
        return self._read(completion, latency, lambda text: check(place, text))

    def _read(
        self, completion: Any, latency: float, check: Callable[[str], str | None]
    ) -> tuple[Answer, str]:
        """Reads a completion strictly; an invalid one still has its tokens and its cost."""
        first = _first_choice(completion)
        if first is None:
            answer = Answer(None, latency=latency, failure="malformed response")
            return answer, repr(completion)[:200]
        text = str(first.message.content or "")
        fault, detail = check(text), repr(text[:200])
        if fault is not None and first.finish_reason == "length":
            fault = "cut off"
            detail = f"raise {self.settings.group}.max_completion_tokens"
        usage = completion.usage
        prompt, written = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        cost = (prompt * self.prices["prompt"] + written * self.prices["completion"]) / 1e6
        return Answer(text, prompt + written, cost, latency, fault), detail

    def _count(self, failure: str | None, detail: str) -> None:
        """Counts a call; raises JudgeError once too many of the newest ones have failed."""
        self.calls += 1
        self._recent.append(failure is not None)
        if failure is None:
            return
        self.failures[failure] += 1
        log.debug("no answer: %s: %s", failure, detail)
        limit = self.settings.max_failure_rate
        if sum(self._recent) / max(len(self._recent), WINDOW_FLOOR) > limit:
            raise JudgeError(
                f"{sum(self._recent)} of the last {len(self._recent)} calls to {self.where} gave "
                f"no valid answer, more than {self.settings.group}.max_failure_rate={limit}; in "
                f"all {self.calls} calls: {dict(self.failures)}. The last one: {failure}: {detail}"
            )

    def _stop_if_fatal(self, error: openai.APIError) -> None:
        status = getattr(error, "status_code", None)
        settings = self.settings
        reason = fatal_reason(
            status, error.code, error.param, settings.model, settings.api_key_env, settings.group
        )
        if reason is not None:
            # Without the cause, whose own message is the server's and may repeat the key.
            raise JudgeError(
                f"{self.where}: {reason}. The server says: {self._told(error)}"
            ) from None

    def _told(self, error: Exception) -> str:
        """An error's message; some servers repeat the key in theirs."""
        key = self._client.api_key
        return str(error) if key == NO_KEY else str(error).replace(key, "(the key)")


def _some_text(_: int, text: str) -> str | None:
    return None if text.strip() else "empty answer"


def _read_key(settings: ChatSettings) -> str:
    """The key in the environment variable; a stand-in for servers that need none."""
    variable, base_url, group = settings.api_key_env, settings.base_url, settings.group
    key = os.environ.get(variable, "") if variable else NO_KEY
    if not key and base_url and urlsplit(base_url).hostname in LOCAL_HOSTS:
        return NO_KEY
    if not key:
        raise ConfigError(
            f"the environment variable {variable} ({group}.api_key_env) is not set: export "
            f"{variable}=<your key>; for a server without keys set {group}.api_key_env=''"
        )
    return key


async def _spent_is_final(response: httpx2.Response) -> None:
    """Tells the client not to retry a 429 that means spent credit and not haste."""
    if response.status_code == 429 and b"insufficient_quota" in await response.aread():
        response.headers["x-should-retry"] = "false"


def _first_choice(answer: Any) -> Any:
    """The first choice of a completion; None where a server, unchecked by the client, sent none."""
    choices = getattr(answer, "choices", None)
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if getattr(first, "message", None) is not None else None


def _kind(error: Exception) -> str:
    """A short name to count a failed call under."""
    if isinstance(error, openai.APIStatusError):
        return f"HTTP {error.status_code}"
    names = {openai.APITimeoutError: "timeout", json.JSONDecodeError: "malformed response"}
    return names.get(type(error), type(error).__name__)
