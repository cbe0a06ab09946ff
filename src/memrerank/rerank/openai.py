"""A language model behind an OpenAI-compatible API as the judge.

`rerank/chat.py` does the asking; what is added here is the question, the strict reading of its
answer and the seed of each sample. An answer that names no candidate gives a choice without an
index and counts as a failed call.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from memrerank.rerank.chat import Answer, ChatClient, ChatSettings
from memrerank.rerank.prompting import parse_choice, setwise_messages
from memrerank.schema import Choice, Comparison
from memrerank.seeding import derive_seed

log = logging.getLogger(__name__)


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
        prices: Mapping[str, float] | None,
        seed: int | None,
        max_failure_rate: float = 0.05,
    ) -> None:
        self.model = model
        self.api_key_env = api_key_env
        self.seed = seed
        self.client = ChatClient(
            ChatSettings(
                model=model,
                base_url=base_url,
                api_key_env=api_key_env,
                max_completion_tokens=max_completion_tokens,
                max_concurrency=max_concurrency,
                timeout=timeout,
                max_retries=max_retries,
                reasoning_effort=reasoning_effort,
                temperature=temperature,
                top_p=top_p,
                prices=prices,
                max_failure_rate=max_failure_rate,
            )
        )
        log.info("Judge: %s", self.client.where)

    @property
    def calls(self) -> int:
        """How many questions have been asked."""
        return self.client.calls

    @property
    def failures(self) -> Counter[str]:
        """The questions without a valid answer, by kind."""
        return self.client.failures

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """One answer per comparison, in order; `index` is None where none could be had.

        Raises:
            JudgeError: the endpoint can never answer, or too many calls failed.
        """

        def check(place: int, text: str) -> str | None:
            valid = parse_choice(text, len(comparisons[place].candidates)) is not None
            return None if valid else "not one label"

        requests = [self.request(comparison) for comparison in comparisons]
        answers = self.client.complete(requests, check=check)
        return [_choice(*pair) for pair in zip(comparisons, answers, strict=True)]

    def request(self, comparison: Comparison) -> dict[str, Any]:
        """What is sent for a comparison; equal comparisons give equal requests."""
        request = self.client.request(setwise_messages(comparison))
        if self.seed is not None:
            names = (comparison.query_id, comparison.sample)
            request["seed"] = derive_seed(self.seed, "judge", *names) % 2**31
        return request

    def close(self) -> None:
        """Closes the connections and ends the background thread."""
        self.client.close()


def _choice(comparison: Comparison, answer: Answer) -> Choice:
    """What an answer says, invalid or not, and what it took."""
    valid = answer.text is not None and answer.failure is None
    index = parse_choice(str(answer.text), len(comparison.candidates)) if valid else None
    return Choice(index, answer.tokens, answer.cost, answer.latency)
