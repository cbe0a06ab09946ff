"""The words of the project: what passes between its rooms.

Frozen dataclasses without logic. Timestamps are UTC milliseconds; product ids are Amazon
`parent_asin`s; categories are the file names of Amazon-Reviews-2023 (`"Electronics"`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np


class Target(StrEnum):
    """Which preferences a memory holds (paper: M_W and M_WC)."""

    w = "w"  # within the query's category
    wc = "wc"  # within and across categories, in two fields


class Split(StrEnum):
    """The parts of a benchmark; no user is in two of them."""

    train = "train"
    dev = "dev"
    test = "test"


# ---------------------------------------------------------------- data


@dataclass(frozen=True, slots=True)
class Product:
    """An item of the store, with its text already cut at the word cap (paper: 120 words)."""

    id: str
    title: str
    description: str
    category: str

    @property
    def text(self) -> str:
        """Title and description, as shown to retrievers and rerankers."""
        return f"{self.title}. {self.description}" if self.description else self.title


@dataclass(frozen=True, slots=True)
class Purchase:
    """One product that a user bought, and when."""

    product: Product
    timestamp: int


@dataclass(frozen=True, slots=True)
class History:
    """A user's purchases strictly before one target purchase, oldest first, the target excluded."""

    user_id: str
    category: str
    within: tuple[Purchase, ...]  # purchases in `category`
    cross: tuple[Purchase, ...]  # purchases in all other categories


@dataclass(frozen=True, slots=True)
class Query:
    """A search by one user, answered by the one product that they bought."""

    id: str
    text: str
    user_id: str
    positive_id: str
    category: str
    timestamp: int  # when the positive was bought


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Queries by split, the history behind each query, and the corpus that is searched."""

    category: str
    queries: dict[Split, tuple[Query, ...]]
    histories: dict[str, History]  # by query id
    corpus: Mapping[str, Product]  # by product id, in order of id; iterating it streams
    counts: dict[str, int]  # what was read, kept and left out, by reason
    fingerprint: str  # sha256 over all that the benchmark was made from


@dataclass(frozen=True, slots=True)
class Pool:
    """The products that one retriever returns for one query, best first."""

    query_id: str
    retriever: str
    product_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetwiseInstance:
    """Five candidates of which one is the positive: the unit of reward (paper, section on data)."""

    id: str  # "{query_id}/{retriever}/{number}"
    query_id: str
    retriever: str
    candidates: tuple[Product, ...]
    positive: int  # index into candidates


# ---------------------------------------------------------------- memory and judging


@dataclass(frozen=True, slots=True)
class Memory:
    """What the reranker is told of a shopper; evidence is already removed.

    `flaws` names what the parser found wrong with the text that the memory came from; a
    memory with flaws still carries whatever could be read.
    """

    within: str = ""
    cross: str = ""
    flaws: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Both fields, one a line; empty when there is no memory."""
        return "\n".join(part for part in (self.within, self.cross) if part)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question to the reranker: which of these candidates would this shopper buy?"""

    query_id: str
    query: str
    memory: Memory
    candidates: tuple[Product, ...]
    sample: int = 0  # which of several independent answers to the same question
    vote: int = 0  # which of several orders of the candidates, under `ranking.votes`
    attempt: int = 0  # how often it was asked before without a valid answer

    @property
    def draw(self) -> tuple[int, ...]:
        """What tells the question from its repeats: seeds and recorded answers depend on it."""
        repeat = (self.vote, self.attempt)
        return (self.sample, *repeat) if any(repeat) else (self.sample,)


class Question(StrEnum):
    """What a judge can be asked; each is the name of its method."""

    choose = "choose"  # which one
    order = "order"  # all of them, best first
    score = "score"  # how good each one is, on a scale that holds across comparisons
    distribution = "distribution"  # how probable each is to be chosen


class Failure(StrEnum):
    """Why there is no valid answer."""

    invalid = "invalid"  # it names no candidate, or several
    refused = "refused"  # the model declined
    timed_out = "timed_out"
    rate_limited = "rate_limited"  # still so after the client's retries
    failed = "failed"  # any other error of the endpoint or the network


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the endpoint counts them."""

    input: int = 0  # of the prompt, `cached_input` included
    cached_input: int = 0  # read from the endpoint's own prompt cache
    output: int = 0  # reasoning included

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.cached_input + other.cached_input,
            self.output + other.output,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """The reranker's answer, by places in the comparison's candidates.

    `index` is None, and `failure` says why, when there was no valid answer. `order`, `scores` and
    `probabilities` are there for the questions that ask for them, one entry a candidate.
    """

    index: int | None
    order: tuple[int, ...] = ()  # places, best first
    scores: tuple[float, ...] = ()  # higher is better
    probabilities: tuple[float, ...] = ()  # sum to 1
    failure: Failure | None = None
    usage: Usage = Usage()
    cost: float = 0.0  # US dollars
    latency: float = 0.0  # seconds
    calls: int = 1  # how often the judge was asked for it
    replayed: bool = False  # a recorded answer: usage, cost and latency are of the first time


@dataclass(frozen=True, slots=True)
class Ranking:
    """A pool in the order that the reranker's choices imply, and what that took."""

    query_id: str
    product_ids: tuple[str, ...]
    calls: int
    rounds: int
    invalid: int  # comparisons without a valid answer, settled by the retriever's order


# ---------------------------------------------------------------- training


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """One prompt's worth of training: whose history is distilled, and what judges the memory."""

    query: Query
    history: History
    instance: SetwiseInstance


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled completion, in token ids and as text."""

    token_ids: tuple[int, ...]  # with the end token, if it was reached
    log_probs: tuple[float, ...]  # of each token when it was sampled, at the sampling temperature
    text: str
    truncated: bool  # stopped by the length cap


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """G completions sampled for one prompt."""

    prompt_ids: tuple[int, ...]
    rollouts: tuple[Rollout, ...]
    case: TrainingCase | None = None  # what the group is judged on


@dataclass(frozen=True, slots=True)
class Rewards:
    """Rewards of a batch of groups. NaN marks a rollout whose reward could not be had."""

    total: np.ndarray  # [groups, rollouts]
    components: dict[str, np.ndarray] = field(default_factory=dict)  # each [groups, rollouts]


# ---------------------------------------------------------------- interfaces


class SetwiseReranker(Protocol):
    """A judge: batch in, batch out, same order.

    A judge may answer more than one `Question`; each further one is a method like `choose`, named
    after it.
    """

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]: ...


class DistributionReranker(SetwiseReranker, Protocol):
    """A judge that can also tell how probable each candidate is to be its choice."""

    def distribution(self, comparisons: Sequence[Comparison]) -> list[Choice]: ...


class OrderingReranker(SetwiseReranker, Protocol):
    """A judge that can also put all candidates of a comparison in order."""

    def order(self, comparisons: Sequence[Comparison]) -> list[Choice]: ...


class ScoringReranker(SetwiseReranker, Protocol):
    """A judge that can also score candidates on a scale that holds across comparisons."""

    def score(self, comparisons: Sequence[Comparison]) -> list[Choice]: ...


def answers(judge: object, question: Question) -> bool:
    """Whether a judge can be asked that; a judge that wraps another says so in `questions`."""
    known = getattr(judge, "questions", None)
    return hasattr(judge, question) if known is None else question in known


class MemorySource(Protocol):
    """A way to turn histories into memories (the `baseline` config group)."""

    def build(self, histories: Sequence[History]) -> list[Memory]: ...


class RewardCallback(Protocol):
    """Scores the rollouts of a batch of groups; every group carries its case."""

    def __call__(self, groups: Sequence[RolloutGroup]) -> Rewards: ...


class RolloutEngine(Protocol):
    """Samples `rollouts` completions for each prompt (token ids in, token ids out)."""

    def generate(
        self, prompts: Sequence[Sequence[int]], rollouts: int, seeds: Sequence[int]
    ) -> list[RolloutGroup]: ...
