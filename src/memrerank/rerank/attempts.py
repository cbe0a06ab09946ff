"""What happens around each attempt of a call: the budget, the limits, and what retries hide.

The official client repeats a failed attempt by itself. Its HTTP client's hooks see every attempt,
so that money is set aside for each, and none is spent unseen.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import httpx2
import openai
from aiolimiter import AsyncLimiter

from memrerank.rerank.ledger import Ledger

TOKEN_BURST = 10.0  # seconds' worth of tokens that may be sent at once
REQUEST_BURST = 1.0  # the same for requests


class BudgetSpent(openai.OpenAIError):
    """No call fits into the budget any more. The client hands its own kind of error on as it is."""


class Call:
    """One request on its way, and the money set aside for its newest attempt."""

    def __init__(self, bound: float) -> None:
        self.bound = bound  # the most that one attempt can cost, US dollars
        self.attempts = 0
        self.responses = 0
        self.holds = False  # whether `bound` is set aside


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)


class Budgeting:
    """Sets money aside before each attempt and settles it after the last.

    A call for which there is no room waits while others may yet settle for less than was set aside
    for them, and gives up when there is none.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._holding = 0  # calls with money set aside
        self._settled = asyncio.Condition()

    @property
    def hooks(self) -> dict[str, list]:
        """For the HTTP client."""
        return {"request": [self._before], "response": [self._after]}

    @contextmanager
    def call(self, bound: float) -> Iterator[Call]:
        """One call; what it still holds at the end is for `settle` to return."""
        call = Call(bound)
        token = _CALL.set(call)
        try:
            yield call
        finally:
            _CALL.reset(token)

    async def settle(self, call: Call) -> None:
        """Ends a call. An attempt without a response may have been billed, and counts in full."""
        if call.attempts > call.responses:
            self.ledger.add_unanswered(call.bound)
        await self._release(call)

    async def _before(self, request: httpx2.Request) -> None:
        call = _CALL.get()
        if call is None:  # a request that costs nothing, such as a look at a batch
            return
        if call.attempts > call.responses:
            self.ledger.add_unanswered(call.bound)
            call.responses = call.attempts
            await self._release(call)
        if call.attempts:
            self.ledger.count("retries")
        if self.ledger.budget_usd is not None and not call.holds:
            await self._reserve(call)
        call.attempts += 1

    async def _after(self, response: httpx2.Response) -> None:
        if (call := _CALL.get()) is None:
            return
        call.responses += 1
        if response.status_code == 429:
            self.ledger.count("rate_limited_attempts")
            # Spent credit comes as a 429 as well, and no retry helps.
            if b"insufficient_quota" in await response.aread():
                response.headers["x-should-retry"] = "false"
        elif response.status_code >= 500:
            self.ledger.count("failed_attempts")

    async def _reserve(self, call: Call) -> None:
        async with self._settled:
            while not self.ledger.reserve(call.bound):
                if not self._holding:
                    raise BudgetSpent(str(self.ledger.overspent(call.bound)))
                await self._settled.wait()
            call.holds = True
            self._holding += 1

    async def _release(self, call: Call) -> None:
        if not call.holds:
            return
        async with self._settled:
            call.holds = False
            self._holding -= 1
            self.ledger.release(call.bound)
            self._settled.notify_all()


class Pace:
    """Keeps requests and tokens below so many per minute; None sets no limit.

    A burst of at most REQUEST_BURST or TOKEN_BURST seconds' worth goes out at once.
    """

    def __init__(self, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        self._requests = _limiter(requests_per_minute, REQUEST_BURST)
        self._tokens = _limiter(tokens_per_minute, TOKEN_BURST)

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens are limited."""
        return self._tokens is not None

    async def wait(self, tokens: int) -> None:
        """Returns when a request of so many tokens may go out."""
        if self._requests is not None:
            await self._requests.acquire()
        if self._tokens is not None:
            await self._tokens.acquire(min(float(tokens), self._tokens.max_rate))


def _limiter(per_minute: int | None, burst: float) -> AsyncLimiter | None:
    if per_minute is None:
        return None
    capacity = max(1.0, per_minute * burst / 60)
    return AsyncLimiter(capacity, capacity * 60 / per_minute)
