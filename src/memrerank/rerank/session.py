"""Open connections to an OpenAI-compatible endpoint, and the event loop that serves them."""

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from memrerank.errors import ConfigError
from memrerank.rerank.attempts import Budgeting, Pace
from memrerank.rerank.ledger import Ledger, Price

log = logging.getLogger(__name__)

Result = TypeVar("Result")

LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
NO_KEY = "none"  # the client insists on a key, a local server ignores it
# The HTTP client looks through all of a pool's connections at every request: several small pools
# serve many connections faster than one large pool.
POOL_CONNECTIONS = 8


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
    requests_per_minute: int | None = None  # None: as many as the endpoint takes
    tokens_per_minute: int | None = None  # of prompts and usual answers
    usual_output: int = 16  # tokens of a usual answer
    price: Price | None = None
    budget_usd: float | None = None
    max_failure_rate: float = 0.05  # share of the newest calls without a valid answer that stops
    group: str = "reranker"  # the config node of these settings, for messages

    def __post_init__(self) -> None:
        """Raises ConfigError for a value that cannot work."""
        least = {"max_concurrency": 1, "max_completion_tokens": 1, "max_retries": 0}
        least |= {"requests_per_minute": 1, "tokens_per_minute": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ConfigError(f"{self.group}.{name}={value} must be {bound} or more")
        if self.timeout <= 0:
            raise ConfigError(f"{self.group}.timeout={self.timeout} must be above 0 seconds")


class Session:
    """The event loop in its thread, and the connections."""

    def __init__(self, settings: ChatSettings, ledger: Ledger) -> None:
        self.key = _read_key(settings)
        self.budgeting = Budgeting(ledger)
        self.pace = Pace(settings.requests_per_minute, settings.tokens_per_minute)
        pools = -(-settings.max_concurrency // POOL_CONNECTIONS)
        connections = -(-settings.max_concurrency // pools)
        limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
        self.clients = [
            AsyncOpenAI(
                api_key=self.key,
                base_url=settings.base_url,
                timeout=settings.timeout,
                max_retries=settings.max_retries,
                http_client=DefaultAsyncHttpxClient(
                    limits=limits, event_hooks=self.budgeting.hooks
                ),
            )
            for _ in range(pools)
        ]
        self.loop = asyncio.new_event_loop()
        name = settings.group
        threading.Thread(target=self.loop.run_forever, name=name, daemon=True).start()
        log.info("%s at %s", settings.model, self.clients[0].base_url)

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine in the background thread, and stops it when this thread is stopped."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C too: leave no request running
            future.cancel()
            raise

    def close(self) -> None:
        """Closes the connections and ends the thread."""
        for client in self.clients:
            self.wait(client.close())
        self.loop.call_soon_threadsafe(self.loop.stop)

    def told(self, error: Exception) -> str:
        """An error's message; some servers repeat the key in theirs."""
        return str(error) if self.key == NO_KEY else str(error).replace(self.key, "(the key)")


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
