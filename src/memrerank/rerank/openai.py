"""A language model behind an OpenAI-compatible API as the judge.

Asynchronous inside, synchronous at the edge: one event loop in a background thread serves every
batch, with at most `max_concurrency` requests in flight. Retries, backoff and Retry-After are the
client's own. What still fails is counted by kind and gives a choice without an index; what can
never succeed (a refused key, spent credit, an unknown model or parameter) stops the run at once.
"""

import asyncio
import json
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.fatal import fatal_reason
from memrerank.rerank.prompting import parse_choice, setwise_messages
from memrerank.schema import Choice, Comparison
from memrerank.seeding import derive_seed

log = logging.getLogger(__name__)

Result = TypeVar("Result")

LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
NO_KEY = "none"  # the client insists on a key, a local server ignores it
PRICES = {"prompt", "completion"}
WINDOW = 200  # newest calls over which the failure rate is taken
WINDOW_FLOOR = 100  # with fewer calls than this the rate is taken as if there were this many


class OpenAIReranker:
    """A setwise judge that asks a chat model for the label of one candidate.

    Args:
        model: the model's name at the endpoint.
        base_url: of an OpenAI-compatible server; None is the client's own default.
        api_key_env: the environment variable that holds the key. It may be unset for a server on
            this machine; an empty name says that the server needs no key.
        reasoning_effort, temperature, top_p: sent only when not None.
        max_completion_tokens: of one answer, reasoning included.
        max_concurrency: requests in flight at once.
        timeout: seconds for one attempt.
        max_retries: by the client, after the first attempt.
        prices: US dollars per million tokens, `{"prompt": ..., "completion": ...}`.
        seed: each question is sent with a seed derived from it and from the question's own
            sample index, so that samples differ and repeats do not; None sends none.
        max_failure_rate: share of the newest 200 calls without a valid answer above which
            `choose` raises.

    `failures` counts the calls without a valid answer by kind, `calls` counts all.

    Raises:
        ConfigError: the key is missing, `prices` has other names, or no request may be in flight.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None,
        api_key_env: str,
        reasoning_effort: str | None,
        temperature: float | None,
        top_p: float | None,
        max_completion_tokens: int,
        max_concurrency: int,
        timeout: float,
        max_retries: int,
        prices: dict[str, float] | None,
        seed: int | None,
        max_failure_rate: float = 0.05,
    ) -> None:
        if prices is not None and set(prices) != PRICES:
            raise ConfigError(f"reranker.prices={prices}: give {' and '.join(sorted(PRICES))}")
        if max_concurrency < 1:
            raise ConfigError(f"reranker.max_concurrency={max_concurrency} must be 1 or more")
        self.model = model
        self.api_key_env = api_key_env
        self.prices = prices or dict.fromkeys(PRICES, 0.0)
        self.seed = seed
        self.max_failure_rate = max_failure_rate
        self.failures: Counter[str] = Counter()
        self.calls = 0
        parameters = {
            "max_completion_tokens": max_completion_tokens,
            "reasoning_effort": reasoning_effort,
            "temperature": temperature,
            "top_p": top_p,
        }
        self._parameters = {n: value for n, value in parameters.items() if value is not None}
        self._recent: deque[bool] = deque(maxlen=WINDOW)  # True: no valid answer
        self._slots = asyncio.Semaphore(max_concurrency)
        self._client = AsyncOpenAI(
            api_key=_read_key(api_key_env, base_url),
            base_url=base_url,
            timeout=timeout,
            max_retries=max_retries,
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [_spent_is_final]}),
        )
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="judge", daemon=True).start()
        log.info("Judge: %s at %s", model, self._client.base_url)

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """One answer per comparison, in order; `index` is None where none could be had.

        Raises:
            JudgeError: the endpoint can never answer, or too many calls failed.
        """
        return self._wait(self._choose_all(comparisons))

    def request(self, comparison: Comparison) -> dict[str, Any]:
        """What is sent for a comparison; equal comparisons give equal requests."""
        messages = setwise_messages(comparison)
        request = {"model": self.model, "messages": messages, **self._parameters}
        if self.seed is not None:
            names = (comparison.query_id, comparison.sample)
            request["seed"] = derive_seed(self.seed, "judge", *names) % 2**31
        return request

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

    async def _choose_all(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        try:
            async with asyncio.TaskGroup() as running:
                tasks = [running.create_task(self._choose_one(one)) for one in comparisons]
        except BaseExceptionGroup as group:  # the first error has ended all the other tasks
            first = group.exceptions[0]
            raise first from first.__cause__
        return [task.result() for task in tasks]

    async def _choose_one(self, comparison: Comparison) -> Choice:
        async with self._slots:
            started = time.perf_counter()
            try:
                answer = await self._client.chat.completions.create(**self.request(comparison))
            except (
                openai.APIError,
                json.JSONDecodeError,
            ) as error:  # a broken body raises the latter
                if isinstance(error, openai.APIError):
                    self._stop_if_fatal(error)
                self._count(_kind(error), str(error))
                return Choice(None, latency=time.perf_counter() - started)
            latency = time.perf_counter() - started
        return self._read(answer, len(comparison.candidates), latency)

    def _read(self, answer: Any, candidates: int, latency: float) -> Choice:
        """Reads an answer strictly; an invalid one still has its tokens and its cost."""
        first = _first_choice(answer)
        if first is None:
            self._count("malformed response", repr(answer)[:200])
            return Choice(None, latency=latency)
        text = str(first.message.content or "")
        index = parse_choice(text, candidates)
        if index is not None:
            self._count(None, "")
        elif first.finish_reason == "length":
            self._count("cut off", "raise reranker.max_completion_tokens")
        else:
            self._count("not one label", repr(text[:200]))
        usage = answer.usage
        prompt, completion = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        cost = (prompt * self.prices["prompt"] + completion * self.prices["completion"]) / 1e6
        return Choice(index, tokens=prompt + completion, cost=cost, latency=latency)

    def _count(self, failure: str | None, detail: str) -> None:
        """Counts a call; raises JudgeError once too many of the newest ones have failed."""
        self.calls += 1
        self._recent.append(failure is not None)
        if failure is None:
            return
        self.failures[failure] += 1
        log.debug("no answer: %s: %s", failure, detail)
        rate = sum(self._recent) / max(len(self._recent), WINDOW_FLOOR)
        if rate > self.max_failure_rate:
            raise JudgeError(
                f"{sum(self._recent)} of the last {len(self._recent)} calls to {self.model} at "
                f"{self._client.base_url} gave no valid answer, more than "
                f"reranker.max_failure_rate={self.max_failure_rate}; in all {self.calls} calls: "
                f"{dict(self.failures)}. The last one: {failure}: {detail}"
            )

    def _stop_if_fatal(self, error: openai.APIError) -> None:
        status = getattr(error, "status_code", None)
        reason = fatal_reason(status, error.code, error.param, self.model, self.api_key_env)
        if reason is not None:
            where = f"{self.model} at {self._client.base_url}"
            raise JudgeError(f"{where}: {reason}. The server says: {error}") from error


def _read_key(variable: str, base_url: str | None) -> str:
    """The key in the environment variable; a stand-in for servers that need none."""
    key = os.environ.get(variable, "") if variable else NO_KEY
    if not key and base_url and urlsplit(base_url).hostname in LOCAL_HOSTS:
        return NO_KEY
    if not key:
        raise ConfigError(
            f"the environment variable {variable} (reranker.api_key_env) is not set: export "
            f"{variable}=<your key>; for a server without keys set reranker.api_key_env=''"
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
