"""A language model behind an OpenAI-compatible API as the judge.

`rerank/chat.py` does the asking; what is added here is the question, the strict reading of its
answer and the seed of each sample. An answer that names no candidate, or several, is invalid.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from memrerank.config.judges import AnswerForm
from memrerank.errors import ConfigError
from memrerank.rerank.answers import answer_schema, choice_reader
from memrerank.rerank.batches import BatchClient
from memrerank.rerank.chat import ChatClient
from memrerank.rerank.completions import Answer
from memrerank.rerank.ledger import Ledger, Price
from memrerank.rerank.prompting import setwise_prompt
from memrerank.rerank.session import ChatSettings
from memrerank.schema import Choice, Comparison, Question
from memrerank.seeding import derive_seed

OnChoice = Callable[[int, Choice], None]

TOP_LOGPROBS = 20  # the most that OpenAI's API gives
WANTED = {  # what is wrong with an answer that cannot be read
    Question.choose: "not one label",
    Question.order: "not all labels in an order",
    Question.distribution: "no label among the likeliest first tokens",
}


class OpenAIReranker:
    """A setwise judge that asks a chat model for the label of one candidate, or for their order.

    With `logprobs` it can also give its distribution: the probabilities of the labels as the first
    token of an answer, among each other.

    Nothing is opened, and no key is read, before the first question.

    Args:
        model, base_url, api_key_env, reasoning_effort, temperature, top_p, max_completion_tokens,
            max_concurrency, requests_per_minute, tokens_per_minute, timeout, max_retries,
            usual_output, budget_usd, max_failure_rate: see `ChatSettings`.
        prompt: the template of the question, in `rerank/prompts/`.
        answer: the form of the answer.
        logprobs: ask for log-probabilities.
        seed: each question is sent with a seed derived from it and from the question's own draw, so
            that samples differ and repeats do not; None sends none.
        price: of the model; a Price, or its fields.
        batch, batch_poll_seconds, batch_folder: send questions through the Batch API instead, see
            `BatchClient`.
        tokenizer: for estimates alone.

    Raises:
        ConfigError: settings that do not go together.
    """

    streams = True

    def __init__(
        self,
        *,
        model: str,
        prompt: str,
        answer: AnswerForm | str,
        logprobs: bool,
        seed: int | None,
        price: Price | Mapping[str, Any] | None,
        batch: bool = False,
        batch_poll_seconds: float = 30.0,
        batch_folder: Path | str = "batches",
        tokenizer: str | None = None,
        **how: Any,
    ) -> None:
        self.prompt = prompt
        self.structured = AnswerForm(answer) is AnswerForm.structured
        self.logprobs = logprobs
        self.seed = seed
        self.tokenizer = tokenizer
        if logprobs and self.structured:
            raise ConfigError(
                "reranker.logprobs=true: the first token of a structured answer is no label; set "
                "reranker.answer=plain"
            )
        if isinstance(price, Mapping):
            price = Price.of(price, "reranker.price")
        self.client = ChatClient(ChatSettings(model=model, price=price, **how))
        self.batches: BatchClient | None = None
        if batch:
            self.batches = BatchClient(self.client, Path(batch_folder), batch_poll_seconds)

    @property
    def ledger(self) -> Ledger:
        """Tokens and cost so far."""
        return self.client.ledger

    @property
    def questions(self) -> frozenset[Question]:
        """What it can be asked."""
        known = {Question.choose, Question.order}
        return frozenset(known | {Question.distribution} if self.logprobs else known)

    def choose(
        self, comparisons: Sequence[Comparison], on_choice: OnChoice | None = None
    ) -> list[Choice]:
        """One answer per comparison, in order; `index` is None where none could be had.

        Args:
            on_choice: called with each place and its choice as soon as there is one, in the
                client's thread.

        Raises:
            ConfigError: the key is missing.
            JudgeError: the endpoint can never answer, too many calls failed, or the budget is
                spent.
        """
        return self._ask(Question.choose, comparisons, on_choice)

    def order(
        self, comparisons: Sequence[Comparison], on_choice: OnChoice | None = None
    ) -> list[Choice]:
        """As `choose`, for all candidates of each comparison, best first."""
        return self._ask(Question.order, comparisons, on_choice)

    def distribution(
        self, comparisons: Sequence[Comparison], on_choice: OnChoice | None = None
    ) -> list[Choice]:
        """As `choose`, with the labels' probabilities among each other."""
        return self._ask(Question.distribution, comparisons, on_choice)

    def request(
        self, comparison: Comparison, question: Question = Question.choose
    ) -> dict[str, Any]:
        """What is sent for a comparison; equal comparisons give equal requests."""
        asked = setwise_prompt(comparison, question, prompt=self.prompt, structured=self.structured)
        request = self.client.request(asked.messages)
        if self.structured:
            request["response_format"] = answer_schema(asked.labels, question)
        if self.logprobs:
            request |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        if self.seed is not None:
            drawn = derive_seed(self.seed, "judge", comparison.query_id, *comparison.draw)
            request["seed"] = drawn % 2**31
        return request

    def close(self) -> None:
        """Closes the connections and ends the background thread."""
        self.client.close()

    def _ask(
        self, question: Question, comparisons: Sequence[Comparison], on_choice: OnChoice | None
    ) -> list[Choice]:
        read = choice_reader(question, structured=self.structured)

        def choice(place: int, answer: Answer) -> Choice:
            return read(answer, len(comparisons[place].candidates))

        def check(place: int, answer: Answer) -> str | None:
            return None if choice(place, answer).index is not None else WANTED[question]

        def on_answer(place: int, answer: Answer) -> None:
            if on_choice is not None:
                on_choice(place, choice(place, answer))

        requests = (self.request(comparison, question) for comparison in comparisons)
        if self.batches is not None:
            answers = self.batches.complete(list(requests), on_answer, check=check)
        else:
            answers = self.client.complete(requests, on_answer, check=check)
        return [choice(*pair) for pair in enumerate(answers)]
