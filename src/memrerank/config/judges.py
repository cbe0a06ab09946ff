"""Schemas of judges, of the recording of their answers, and of what makes rankings of them."""

from dataclasses import dataclass, field
from enum import StrEnum

from omegaconf import II, MISSING

from memrerank.config.data import EncoderConfig
from memrerank.config.prices import PriceConfig
from memrerank.schema import Question


class CacheMode(StrEnum):
    """What happens with recorded answers."""

    off = "off"
    readwrite = "readwrite"  # asks for what is missing and records it
    readonly = "readonly"  # never asks
    refresh = "refresh"  # asks for everything and replaces what was recorded


@dataclass
class RerankerConfig:
    """`reranker`: the setwise judge.

    Every field of a judge belongs to the identity under which its answers are recorded, except
    those of `TRANSPORT`, which say how it is reached and not what it answers.
    """

    _target_: str = MISSING
    name: str = MISSING
    recording: CacheMode = CacheMode.off  # the default of judge_cache.mode under this judge


TRANSPORT = {
    "name",
    "recording",
    "base_url",
    "api_key_env",
    "max_concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "timeout",
    "max_retries",
    "max_failure_rate",
    "batch",
    "batch_poll_seconds",
    "batch_folder",
    "budget_usd",
    "price",
    "tokenizer",
    "usual_output",
    "device",
    "batch_size",
    "share_prefix",
    "cache_dir",
}


@dataclass
class EmbeddingRerankerConfig(RerankerConfig):
    """A judge made of a sentence encoder."""

    _target_: str = "memrerank.rerank.embedding.EmbeddingReranker"
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    memory_weight: float = MISSING
    temperature: float = MISSING
    seed: int = II("seed")  # of its draws


@dataclass
class CrossEncoderRerankerConfig(RerankerConfig):
    """A judge made of a sentence-transformers CrossEncoder."""

    _target_: str = "memrerank.rerank.cross_encoder.CrossEncoderReranker"
    model: str = MISSING
    max_length: int = MISSING  # tokens of query, memory and candidate together
    temperature: float = MISSING  # of the softmax over scores
    seed: int = II("seed")  # of its draws
    batch_size: int = MISSING  # candidates
    device: str | None = None  # null: a GPU where there is one


class ChoiceMethod(StrEnum):
    """How a local language model's choice is read."""

    labels = "labels"  # the probability of each candidate's label as the next token
    likelihood = "likelihood"  # the mean log-probability of each candidate's own text


@dataclass
class LocalRerankerConfig(RerankerConfig):
    """A causal language model in this process."""

    _target_: str = "memrerank.rerank.local.LocalReranker"
    model: str = MISSING
    dtype: str = MISSING
    prompt: str = MISSING  # a file of rerank/prompts/, without .jinja
    method: ChoiceMethod = MISSING
    orders: int = MISSING  # rotations that method=labels averages over
    temperature: float = MISSING  # of the softmax; 0 always takes the likeliest
    seed: int = II("seed")  # of its draws
    batch_size: int = MISSING  # sequences in one forward pass
    share_prefix: bool = True  # false computes instruction, memory and query for each comparison
    device: str | None = None  # null: a GPU where there is one
    cache_dir: str = II("cache_dir")  # where wheels are unpacked


class AnswerForm(StrEnum):
    """What a chat model is asked to write."""

    plain = "plain"  # the label
    structured = "structured"  # a JSON object, held to its schema by the endpoint


@dataclass
class OpenAIRerankerConfig(RerankerConfig):
    """Any OpenAI-compatible endpoint."""

    _target_: str = "memrerank.rerank.openai.OpenAIReranker"
    recording: CacheMode = CacheMode.readwrite  # its answers are paid for
    model: str = MISSING
    base_url: str | None = None
    api_key_env: str = MISSING
    prompt: str = MISSING  # a file of rerank/prompts/, without .jinja
    answer: AnswerForm = MISSING
    logprobs: bool = False  # ask for log-probabilities: the judge can then give its distribution
    reasoning_effort: str | None = None  # null: not sent, as the next three
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None  # sent with each question, derived from it
    max_completion_tokens: int = MISSING
    max_concurrency: int = MISSING
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    timeout: float = MISSING  # seconds
    max_retries: int = MISSING
    max_failure_rate: float = MISSING
    batch: bool = False  # evaluation through the Batch API
    batch_poll_seconds: float = MISSING
    batch_folder: str = MISSING  # where batches on their way are noted
    budget_usd: float | None = None  # stops before so much is spent
    price: PriceConfig = field(default_factory=PriceConfig)  # input null: from `prices`, if there
    tokenizer: str | None = None  # counts tokens before they are sent; null: 4 characters a token
    usual_output: int = MISSING  # tokens of a usual answer, for the estimates of dry_run


@dataclass
class JudgeCacheConfig:
    """The recording of the judge's answers."""

    mode: CacheMode = MISSING
    path: str = MISSING


@dataclass
class JudgingConfig:
    """How a judge is asked, whichever it is."""

    max_reasks: int = MISSING  # of a question whose answer was invalid


@dataclass
class RankingConfig:
    """`ranking`: how choices become an order."""

    _target_: str = "memrerank.rerank.algorithms.knockout"
    name: str = MISSING
    question: Question = Question.choose
    top_k: int = MISSING
    set_size: int = MISSING
    votes: int = 1  # orders in which each comparison is asked; the majority counts
