"""Query rewriting (`data.rewrite=llm`) with the chat client that judges use, too.

`data/` knows no API: it asks a `Completer`, and this module makes one.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from memrerank.config.data import RewriterConfig
from memrerank.data.rewrite import (
    Check,
    Keep,
    Messages,
    QueryToRewrite,
    Rewrites,
    rewrite_queries,
)
from memrerank.rerank.chat import ChatClient
from memrerank.rerank.completions import Answer
from memrerank.rerank.ledger import Price
from memrerank.rerank.session import ChatSettings
from memrerank.responses import ResponseStore

log = logging.getLogger(__name__)


def rewrite_with_model(
    rewriter: RewriterConfig,
    rows: Sequence[QueryToRewrite],
    *,
    price: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Rewrites:
    """Rewrites queries with the configured model; needs no key where all answers are recorded.

    Raises:
        ConfigError: the settings cannot work, or the key is missing.
        JudgeError: queries are left without a rewrite, or the model cannot answer at all.
    """
    with closing(ChatCompleter(rewriter_settings(rewriter, price))) as completer:
        return rewrite_queries(
            rows, completer, ResponseStore(Path(rewriter.cache)), progress=progress
        )


def rewriter_settings(
    rewriter: RewriterConfig, price: Mapping[str, Any] | None = None
) -> ChatSettings:
    """The client's settings out of the `rewriter` node.

    Args:
        price: of the model; the fields of a `Price`.
    """
    return ChatSettings(
        model=rewriter.model,
        base_url=rewriter.base_url,
        api_key_env=rewriter.api_key_env,
        max_completion_tokens=rewriter.max_completion_tokens,
        max_concurrency=rewriter.max_concurrency,
        timeout=rewriter.timeout,
        max_retries=rewriter.max_retries,
        reasoning_effort=rewriter.reasoning_effort,
        temperature=rewriter.temperature,
        price=Price.of(price, "rewriter.price") if price else None,
        max_failure_rate=rewriter.max_failure_rate,
        group="rewriter",
    )


class ChatCompleter:
    """A `Completer` over the chat client, which is made when the first question is asked."""

    def __init__(self, settings: ChatSettings) -> None:
        self.settings = settings

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, endpoint and sampling.

        The length limit is left out: it changes no answer that came whole, and raising it must
        not cost the answers that are recorded.
        """
        names = ("model", "base_url", "reasoning_effort", "temperature", "top_p")
        return {name: getattr(self.settings, name) for name in names}

    def complete(
        self, conversations: Sequence[Messages], check: Check, keep: Keep
    ) -> list[str | None]:
        """The valid answers in order, None where there was none; `keep` gets each as it comes.

        Raises:
            ConfigError: the key is missing.
            JudgeError: the endpoint can never answer, or too many calls failed.
        """
        client = self._client

        def on_answer(place: int, answer: Answer) -> None:
            if answer.text is not None and answer.failure is None:
                keep(place, answer.text)

        requests = [client.request(messages) for messages in conversations]
        answers = client.complete(
            requests, on_answer, check=lambda _, answer: check(answer.text or "")
        )
        _log_use(client.where, answers)
        return [answer.text if answer.failure is None else None for answer in answers]

    def close(self) -> None:
        """Closes the client, if there is one."""
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> ChatClient:
        return ChatClient(self.settings)


def _log_use(where: str, answers: Sequence[Answer]) -> None:
    tokens = sum(answer.usage.input + answer.usage.output for answer in answers)
    cost = sum(answer.cost for answer in answers)
    log.info("%s: %d calls, %d tokens, %.2f US dollars", where, len(answers), tokens, cost)
    if failures := Counter(str(answer.failure) for answer in answers if answer.failure is not None):
        log.warning("%s: calls without a valid answer: %s", where, dict(failures))
