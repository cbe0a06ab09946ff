"""The one client of OpenAI-compatible APIs, for every part that asks a chat model.

Asynchronous inside, synchronous at the edge: one event loop in a background thread serves every
batch, with at most `max_concurrency` requests in flight. Retries, backoff and Retry-After are the
official client's own. What still fails is counted by kind; what can never succeed (a refused key,
spent credit, an unknown model or parameter) stops the run at once.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import openai
from openai import AsyncOpenAI

from memrerank.errors import JudgeError
from memrerank.rerank.attempts import BudgetSpent
from memrerank.rerank.completions import Answer, failure_of, read_completion
from memrerank.rerank.fatal import fatal_reason
from memrerank.rerank.ledger import Ledger
from memrerank.rerank.session import ChatSettings, Session

log = logging.getLogger(__name__)

Messages = Sequence[Mapping[str, str]]
Check = Callable[[int, Answer], str | None]  # what is wrong with the answer at that place, if any
OnAnswer = Callable[[int, Answer], None]

WINDOW = 200  # newest calls over which the failure rate is taken
DRAIN_SECONDS = 10.0  # that calls in flight have to come back when a batch is ended by an error
WINDOW_FLOOR = 100  # with fewer calls than this the rate is taken as if there were this many


class ChatClient:
    """Sends chat requests, many at a time.

    Nothing is opened, and no key is read, before the first request. `calls` counts the requests
    that ended, `failures` those without a valid answer by kind; `ledger` has tokens and cost.

    Raises:
        ConfigError: a budget without a price.
    """

    def __init__(self, settings: ChatSettings) -> None:
        self.settings = settings
        self.ledger = Ledger(settings.price, settings.budget_usd, settings.group)
        self.failures: Counter[str] = Counter()
        self.calls = 0
        self._recent: deque[bool] = deque(maxlen=WINDOW)  # True: no valid answer
        self._session: Session | None = None

    @property
    def where(self) -> str:
        """Model and endpoint, for people."""
        return f"{self.settings.model} at {self.settings.base_url or 'the default endpoint'}"

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
        requests: Iterable[Mapping[str, Any]],
        on_answer: OnAnswer | None = None,
        *,
        check: Check | None = None,
    ) -> list[Answer]:
        """One answer per request, in order.

        Args:
            requests: as `request` makes them; taken one by one as they are sent, so that a long
                batch need not be in memory.
            on_answer: called with each request's place and its answer as soon as there is one, in
                the background thread; what it raises ends the batch.
            check: says what is wrong with an answer (a few words), or None. Without one,
                any whole answer with a text is valid.

        Raises:
            ConfigError: the key is missing.
            JudgeError: the endpoint can never answer, too many calls failed, or the budget is
                spent. Answers that had come by then have been handed to `on_answer`.
        """
        batch = _Batch(self, enumerate(requests), on_answer, check or _some_text)
        return self.session.wait(batch.run())

    @property
    def session(self) -> Session:
        """The open connections, for other endpoints of the same server."""
        if self._session is None:
            self._session = Session(self.settings, self.ledger)
        return self._session

    def close(self) -> None:
        """Closes the connections and ends the background thread."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def count(self, answer: Answer) -> None:
        """Counts a call; raises JudgeError once too many of the newest ones have failed."""
        self.calls += 1
        self._recent.append(answer.failure is not None)
        if answer.failure is None:
            return
        self.failures[answer.failure.value] += 1
        log.debug("no answer: %s: %s", answer.failure, answer.detail)
        limit, group = self.settings.max_failure_rate, self.settings.group
        if sum(self._recent) / max(len(self._recent), WINDOW_FLOOR) > limit:
            raise JudgeError(
                f"{sum(self._recent)} of the last {len(self._recent)} calls to {self.where} gave "
                f"no valid answer, more than {group}.max_failure_rate={limit}; in all "
                f"{self.calls} calls: {dict(self.failures)}. The last one: {answer.failure}: "
                f"{answer.detail}"
            )

    def stop_if_fatal(self, error: openai.APIError, told: str) -> None:
        """Raises JudgeError when no further call can succeed either."""
        settings = self.settings
        status = getattr(error, "status_code", None)
        reason = fatal_reason(
            status, error.code, error.param, settings.model, settings.api_key_env, settings.group
        )
        if reason is not None:
            # Without the cause, whose own message is the server's and may repeat the key.
            raise JudgeError(f"{self.where}: {reason}. The server says: {told}") from None


class _Batch:
    """The requests of one `complete`, sent by as many workers as may have one in flight."""

    def __init__(
        self,
        client: ChatClient,
        requests: Iterator[tuple[int, Mapping[str, Any]]],
        on_answer: OnAnswer | None,
        check: Check,
    ) -> None:
        self.client = client
        self.session = client.session
        self.requests = requests
        self.on_answer = on_answer
        self.check = check
        self.answers: dict[int, Answer] = {}
        self.stopping = False

    async def run(self) -> list[Answer]:
        """All answers, in the order of the requests.

        The first error ends the batch: no further request is sent, and those in flight, which may
        be paid for already, have DRAIN_SECONDS to come back. Ctrl-C waits for none.
        """
        clients = self.session.clients
        count = self.client.settings.max_concurrency
        workers = [
            asyncio.create_task(self._work(clients[place % len(clients)])) for place in range(count)
        ]
        try:
            _, working = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            if working:
                self.stopping = True
                await asyncio.wait(working, timeout=DRAIN_SECONDS)
        finally:
            for worker in workers:
                worker.cancel()
            ended = await asyncio.gather(*workers, return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
                raise error from error.__cause__
        return [self.answers[place] for place in range(len(self.answers))]

    async def _work(self, client: AsyncOpenAI) -> None:
        while not self.stopping and (pair := next(self.requests, None)) is not None:
            place, request = pair
            answer = await self._ask(client, place, request)
            self.answers[place] = answer
            if self.on_answer is not None:
                self.on_answer(place, answer)
            self.client.count(answer)

    async def _ask(self, client: AsyncOpenAI, place: int, request: Mapping[str, Any]) -> Answer:
        settings, ledger = self.client.settings, self.client.ledger
        size = prompt_bytes(request) if self._needs_size() else 0
        await self.session.pace.wait(size // 4 + settings.usual_output)
        bound = ledger.bound(size, settings.max_completion_tokens)
        started = time.perf_counter()
        with self.session.budgeting.call(bound) as call:
            try:
                response = await client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=request
                )
            except openai.APIError as error:
                told = self.session.told(error)
                self.client.stop_if_fatal(error, told)
                answer = Answer(None, failure_of(error), told)
            except BudgetSpent as error:
                raise JudgeError(str(error)) from None
            else:
                limit = f"{settings.group}.max_completion_tokens"
                answer = read_completion(response.content, lambda a: self.check(place, a), limit)
            finally:
                await self.session.budgeting.settle(call)
        cost = ledger.add(answer.usage)
        return replace(answer, cost=cost, latency=time.perf_counter() - started)

    def _needs_size(self) -> bool:
        return self.client.settings.price is not None or self.session.pace.counts_tokens


def prompt_bytes(request: Mapping[str, Any]) -> int:
    """The UTF-8 bytes of a request's messages: no fewer than its tokens, chat marks included."""
    marks = 16  # bytes that stand for the tokens around a message
    return sum(len(one["content"].encode()) + marks for one in request["messages"])


def _some_text(_: int, answer: Answer) -> str | None:
    return None if (answer.text or "").strip() else "empty answer"
