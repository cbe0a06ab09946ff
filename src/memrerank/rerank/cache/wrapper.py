"""Recorded answers of a judge: what was paid for once is never asked twice, and a run can be
replayed without its judge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.cache.codec import Keys, decode_choice, encode_choice
from memrerank.responses import ResponseStore
from memrerank.schema import Choice, Comparison, Failure, Question, SetwiseReranker, answers
from memrerank.storage import canonical_json

READ_AT_ONCE = 500
MODES = ("readwrite", "readonly", "refresh", "off")
# Nothing was said, and nothing can be replayed: these are asked again next time.
NOT_RECORDED = {Failure.timed_out, Failure.rate_limited, Failure.failed}


class CachedReranker:
    """Wraps a judge in a cache of its answers, in SQLite, shared between processes.

    A recorded answer belongs to the request it answers: `namespace` (the judge's model, prompt and
    every parameter that changes its answers), question, query, memory, candidates (ids and texts,
    in the order shown) and draw. Invalid and refused answers are recorded as what they are, so that
    a replay is the same to the last one; `refresh` asks for them anew. Calls that timed out or
    failed are not. Tokens, cost and latency of a replayed choice are those of the first time.

    Args:
        reranker: the judge; may be None in mode `readonly`, which never asks. One that `streams`
            has each answer recorded the moment it comes; others are recorded `chunk` by chunk.
        path: the SQLite file; made, with its folder, in modes `readwrite` and `refresh`.
        mode: `readwrite` asks for what is missing and records it; `readonly` raises JudgeError
            where an answer is missing; `refresh` asks for everything and replaces what was
            recorded; `off` passes through.
        namespace: JSON-serialisable.
        chunk: questions that are asked at once, and may be lost at once, of judges in this process.
        remedy: what the message of a miss advises.

    `hits` and `misses` count the answers found and not found.
    """

    def __init__(
        self,
        reranker: SetwiseReranker | None,
        path: Path,
        mode: str,
        namespace: Mapping[str, Any],
        *,
        chunk: int = 512,
        remedy: str = "set judge_cache.mode=readwrite to ask the judge and record its answers",
    ) -> None:
        if mode not in MODES:
            raise ConfigError(f"judge_cache.mode={mode}: choose one of {', '.join(MODES)}")
        if reranker is None and mode != "readonly":
            raise ConfigError(
                f"judge_cache.mode={mode} needs a judge; only readonly does without one"
            )
        self.reranker = reranker
        self.path = Path(path)
        self.store = ResponseStore(self.path, readonly=mode == "readonly")
        self.mode = mode
        self.namespace = dict(namespace)
        self.chunk = chunk
        self.remedy = remedy
        self.hits = 0
        self.misses = 0
        self._keys = Keys(namespace)
        self._judge = str(namespace.get("model") or namespace.get("_target_") or "judge")
        if mode == "readonly" and not self.path.is_file():
            raise JudgeError(f"{self.path}: no recorded answers there; {remedy}")

    @property
    def questions(self) -> frozenset[Question]:
        """What the judge can be asked; without one, whatever may have been recorded."""
        if self.reranker is None:
            return frozenset(Question)
        return frozenset(question for question in Question if answers(self.reranker, question))

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """Answers in order, recorded or new."""
        return self._answer(Question.choose, comparisons)

    def order(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, for all candidates of each comparison."""
        return self._answer(Question.order, comparisons)

    def score(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, with a score for each candidate."""
        return self._answer(Question.score, comparisons)

    def distribution(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, with each candidate's probability."""
        return self._answer(Question.distribution, comparisons)

    def lookup(self, question: Question, comparisons: Sequence[Comparison]) -> list[Choice | None]:
        """The recorded answers; None where there is none."""
        keys = [self._keys.key(question, comparison) for comparison in comparisons]
        found = self._recorded(keys)
        return [found.get(key) for key in keys]

    def _answer(self, question: Question, comparisons: Sequence[Comparison]) -> list[Choice]:
        if self.mode == "off" and self.reranker is not None:
            asked: list[Choice] = getattr(self.reranker, question)(comparisons)
            return asked
        keys = [self._keys.key(question, comparison) for comparison in comparisons]
        known = {} if self.mode == "refresh" else self._recorded(keys)
        missing = {
            key: comparison
            for key, comparison in zip(keys, comparisons, strict=True)
            if key not in known
        }
        misses = sum(key in missing for key in keys) if missing else 0
        self.misses += misses
        self.hits += len(keys) - misses
        if missing and self.mode == "readonly":
            raise self._miss(next(iter(missing.values())), len(missing), len(set(keys)))
        if missing:
            known |= self._ask(question, missing)
        return [known[key] for key in keys]

    def _ask(self, question: Question, missing: Mapping[str, Comparison]) -> dict[str, Choice]:
        """Asks, records, and returns each question's answer: that of whoever recorded it first."""
        keys = list(missing)
        ask: Callable[..., list[Choice]] = getattr(self.reranker, question)
        replacing = self.mode == "refresh"
        found: dict[str, Choice] = {}
        unsure: list[str] = []  # those that another process may have recorded before this one

        def record(pairs: Mapping[str, Choice]) -> None:
            values = {
                key: encode_choice(choice, question, missing[key], self._judge)
                for key, choice in pairs.items()
                if choice.failure not in NOT_RECORDED
            }
            if self.store.write(values, replace=replacing) < len(pairs) and not replacing:
                unsure.extend(pairs)

        if getattr(self.reranker, "streams", False):
            choices = ask(list(missing.values()), lambda i, choice: record({keys[i]: choice}))
            found = dict(zip(keys, choices, strict=True))
        else:
            for start in range(0, len(keys), self.chunk):
                part = keys[start : start + self.chunk]
                answered = dict(zip(part, ask([missing[key] for key in part]), strict=True))
                record(answered)
                found |= answered
        for key, first in self._recorded(unsure).items():
            if replace(first, replayed=False) != found[key]:
                found[key] = first
        return found

    def _recorded(self, keys: Sequence[str]) -> dict[str, Choice]:
        found: dict[str, Choice] = {}
        for start in range(0, len(keys), READ_AT_ONCE):  # their JSON is larger than they are
            for key, value in self.store.read(keys[start : start + READ_AT_ONCE]).items():
                try:
                    found[key] = decode_choice(value)
                except ValueError as error:
                    raise JudgeError(
                        f"{self.path}: the record {key[:16]}... is damaged: {error}; set "
                        "judge_cache.mode=refresh, or name another judge_cache.path"
                    ) from error
        return found

    def _miss(self, comparison: Comparison, missing: int, total: int) -> JudgeError:
        return JudgeError(
            f"{self.path}: no recorded answer for query {comparison.query_id}, sample "
            f"{comparison.sample} ({missing} of {total} answers are missing for judge "
            f"{canonical_json(self.namespace)}); {self.remedy}"
        )
