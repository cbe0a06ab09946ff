"""Many requests at once through an endpoint's Batch API: cheaper, and answered within a day.

A batch that was sent is noted in a folder before it is waited for. A run that is stopped finds it
there when it asks the same questions again, and nothing is paid for twice.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import openai
from openai import AsyncOpenAI

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.chat import ChatClient, prompt_bytes
from memrerank.rerank.completions import Answer, read_completion
from memrerank.schema import Failure
from memrerank.storage import canonical_json, fingerprint, write_json

log = logging.getLogger(__name__)

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
MOST_REQUESTS = 50_000  # of one batch (OpenAI)
MOST_BYTES = 190_000_000  # of one batch's file; OpenAI takes 200 MB
WINDOW: Literal["24h"] = "24h"  # the only one there is
ENDED = {"completed", "failed", "expired", "cancelled"}

Check = Callable[[int, Answer], str | None]
OnAnswer = Callable[[int, Answer], None]


@dataclass(frozen=True, slots=True)
class _Part:
    """Requests that go into one batch; their custom ids are places in the whole."""

    start: int
    lines: tuple[str, ...]

    @property
    def file(self) -> bytes:
        """As it is uploaded."""
        return "".join(self.lines).encode()

    @property
    def key(self) -> str:
        """What tells the part from others."""
        return fingerprint(self.lines)[:32]


class BatchClient:
    """Asks through the Batch API what `ChatClient.complete` would ask one by one.

    Args:
        client: whose connections, price and failure rate are used.
        folder: where batches on their way are noted.
        poll_seconds: between two looks at a batch.
    """

    def __init__(self, client: ChatClient, folder: Path, poll_seconds: float) -> None:
        if poll_seconds <= 0:
            raise ConfigError(f"reranker.batch_poll_seconds={poll_seconds} must be above 0")
        self.client = client
        self.folder = Path(folder)
        self.poll_seconds = poll_seconds

    def complete(
        self,
        requests: Sequence[Mapping[str, Any]],
        on_answer: OnAnswer | None = None,
        *,
        check: Check,
    ) -> list[Answer]:
        """As `ChatClient.complete`; answers come when their batch has ended.

        Raises:
            ConfigError: the endpoint has no batches.
            JudgeError: a batch failed as a whole, the budget does not hold it, or too many of its
                requests failed.
        """
        if not requests:
            return []
        return self.client.session.wait(self._run(requests, on_answer, check))

    async def _run(
        self, requests: Sequence[Mapping[str, Any]], on_answer: OnAnswer | None, check: Check
    ) -> list[Answer]:
        answers: dict[int, Answer] = {}
        for part in _parts(requests):
            bodies = await self._bodies(part, requests)
            for place in range(part.start, part.start + len(part.lines)):
                answer = self._read(bodies.get(place), place, check)
                answers[place] = answer
                if on_answer is not None:
                    on_answer(place, answer)
                self.client.count(answer)
            self._note(part).unlink(missing_ok=True)
        return [answers[place] for place in range(len(requests))]

    async def _bodies(
        self, part: _Part, requests: Sequence[Mapping[str, Any]]
    ) -> dict[int, dict[str, Any]]:
        """What came of each place: a line of the output or error file."""
        api = self.client.session.clients[0]
        try:
            batch = await self._find_or_send(api, part, requests)
            while batch.status not in ENDED:
                await asyncio.sleep(self.poll_seconds)
                before, batch = batch, await api.batches.retrieve(batch.id)
                if (batch.status, batch.request_counts) != (before.status, before.request_counts):
                    log.info("batch %s: %s, %s", batch.id, batch.status, _progress(batch))
            files = (batch.output_file_id, batch.error_file_id)
            texts = [(await api.files.content(one)).text for one in files if one]
        except openai.APIError as error:
            raise self._told(error) from None
        found = {int(line["custom_id"]): line for text in texts for line in _lines(text)}
        if not found:
            self._note(part).unlink(missing_ok=True)
            problems = "; ".join(str(e.message) for e in (batch.errors and batch.errors.data) or [])
            raise JudgeError(
                f"{self.client.where}: batch {batch.id} has {batch.status} without an answer"
                f"{': ' + problems if problems else ''}; set reranker.batch=false, or try again"
            )
        return found

    async def _find_or_send(
        self, api: AsyncOpenAI, part: _Part, requests: Sequence[Mapping[str, Any]]
    ) -> Any:
        note = self._note(part)
        if note.is_file():
            batch_id = json.loads(note.read_text())["batch"]
            log.info("batch %s was sent before and is waited for", batch_id)
            return await api.batches.retrieve(batch_id)
        self._check_budget(part, requests)
        file = await api.files.create(file=("requests.jsonl", part.file), purpose="batch")
        batch = await api.batches.create(
            input_file_id=file.id, endpoint=ENDPOINT, completion_window=WINDOW
        )
        write_json(note, {"batch": batch.id, "requests": len(part.lines)})
        log.info("batch %s: %d requests sent; they may take a day", batch.id, len(part.lines))
        return batch

    def _check_budget(self, part: _Part, requests: Sequence[Mapping[str, Any]]) -> None:
        """A batch is sent whole or not at all: its worst case has to fit into the budget."""
        ledger = self.client.ledger
        most = self.client.settings.max_completion_tokens
        mine = requests[part.start : part.start + len(part.lines)]
        bound = sum(ledger.bound(prompt_bytes(request), most) for request in mine) * self._factor
        if not ledger.reserve(bound):
            raise ledger.overspent(bound)
        ledger.release(bound)

    def _read(self, line: Mapping[str, Any] | None, place: int, check: Check) -> Answer:
        """The answer in a line of the output or error file."""
        if line is None:
            return Answer(None, Failure.failed, "the batch ended before this request was answered")
        response = line.get("response") or {}
        status = response.get("status_code")
        if status != 200:
            told = str(line.get("error") or response.get("body") or "no response")[:300]
            kind = Failure.rate_limited if status == 429 else Failure.failed
            if "expired" in told:
                kind = Failure.timed_out
            return Answer(None, kind, told)
        body = json.dumps(response.get("body")).encode()
        limit = f"{self.client.settings.group}.max_completion_tokens"
        answer = read_completion(body, lambda one: check(place, one), limit)
        return replace(answer, cost=self.client.ledger.add(answer.usage, self._factor))

    def _told(self, error: openai.APIError) -> ConfigError | JudgeError:
        told = self.client.session.told(error)
        if getattr(error, "status_code", None) in (404, 405, 501):
            return ConfigError(
                f"reranker.batch=true: {self.client.where} has no Batch API, or the batch is gone "
                f"({told}); set reranker.batch=false"
            )
        self.client.stop_if_fatal(error, told)
        return JudgeError(f"{self.client.where}: the Batch API failed: {told}")

    def _note(self, part: _Part) -> Path:
        return self.folder / f"{part.key}.json"

    @property
    def _factor(self) -> float:
        price = self.client.settings.price
        return 1.0 if price is None else price.batch


def _parts(requests: Sequence[Mapping[str, Any]]) -> Iterator[_Part]:
    """The requests in files that the endpoint takes."""
    lines: list[str] = []
    size, start = 0, 0
    for place, request in enumerate(requests):
        line = {"custom_id": str(place), "method": "POST", "url": ENDPOINT, "body": request}
        text = canonical_json(line) + "\n"
        if lines and (len(lines) == MOST_REQUESTS or size + len(text.encode()) > MOST_BYTES):
            yield _Part(start, tuple(lines))
            lines, size, start = [], 0, place
        lines.append(text)
        size += len(text.encode())
    yield _Part(start, tuple(lines))


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.strip():
            yield json.loads(line)


def _progress(batch: Any) -> str:
    counts = batch.request_counts
    if counts is None:
        return "no counts yet"
    return f"{counts.completed} of {counts.total} done, {counts.failed} failed"
