"""Recorded answers of a judge: what was paid for once is never asked twice, and a run can be
replayed without its judge."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from memrerank.errors import ConfigError, JudgeError
from memrerank.responses import ResponseStore
from memrerank.schema import Choice, Comparison, SetwiseReranker
from memrerank.storage import canonical_json, fingerprint

MODES = ("readwrite", "readonly", "refresh", "off")


class CachedReranker:
    """Wraps a judge in a cache of its answers, in SQLite, shared between processes.

    A recorded answer belongs to the request it answers: `namespace` (the judge's model and
    every parameter that changes its answers), query, memory, candidates (ids and texts, in
    order) and sample. Invalid answers are recorded as what they are, so that a replay is the
    same to the last one; `refresh` asks for them anew. Tokens, cost and latency of a replayed
    choice are those of the first time.

    Args:
        reranker: the judge; may be None in mode `readonly`, which never asks.
        path: the SQLite file; made, with its folder, in modes `readwrite` and `refresh`.
        mode: `readwrite` asks for what is missing and records it; `readonly` raises JudgeError
            where an answer is missing; `refresh` asks for everything and replaces what was
            recorded; `off` passes through.
        namespace: JSON-serialisable.
        chunk: answers are committed after so many questions, so that a crash loses no more.
        remedy: what the message of a miss advises.

    `hits` and `misses` count the answers found and not found. `distribution` is there when the
    judge has one, or when there is no judge.
    """

    def __init__(
        self,
        reranker: SetwiseReranker | None,
        path: Path,
        mode: str,
        namespace: dict[str, Any],
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
        self.namespace = namespace
        self.chunk = chunk
        self.remedy = remedy
        self.hits = 0
        self.misses = 0
        if mode == "readonly" and not self.path.is_file():
            raise JudgeError(f"{self.path}: no recorded answers there; {remedy}")

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """Answers in order, recorded or new."""
        if self.mode == "off" and self.reranker is not None:
            return self.reranker.choose(comparisons)
        ask = None if self.reranker is None else self.reranker.choose
        keys = [self._key("choice", comparison, comparison.sample) for comparison in comparisons]
        values = self._answers(keys, comparisons, ask, asdict)
        return [Choice(**value) for value in values]

    @property
    def distribution(self) -> Callable[[Sequence[Comparison]], list[np.ndarray]]:
        """The recorded counterpart of the judge's `distribution`; AttributeError without one."""
        if self.reranker is not None and not hasattr(self.reranker, "distribution"):
            raise AttributeError(f"{type(self.reranker).__name__} cannot give its distribution")
        return self._distribution

    def _distribution(self, comparisons: Sequence[Comparison]) -> list[np.ndarray]:
        ask = getattr(self.reranker, "distribution", None)
        if self.mode == "off" and ask is not None:
            return ask(comparisons)
        keys = [self._key("distribution", comparison, None) for comparison in comparisons]
        values = self._answers(keys, comparisons, ask, lambda p: [float(x) for x in p])
        return [np.array(value, dtype=np.float64) for value in values]

    def _key(self, kind: str, comparison: Comparison, sample: int | None) -> str:
        request = {
            "kind": kind,
            "namespace": self.namespace,
            "query_id": comparison.query_id,
            "query": comparison.query,
            "memory": [comparison.memory.within, comparison.memory.cross],
            "candidates": [[product.id, product.text] for product in comparison.candidates],
            "sample": sample,
        }
        return fingerprint(request)

    def _answers(
        self,
        keys: Sequence[str],
        comparisons: Sequence[Comparison],
        ask: Callable[[Sequence[Comparison]], list[Any]] | None,
        to_json: Callable[[Any], Any],
    ) -> list[Any]:
        """The JSON value of each key; those missing are asked for, each once, and recorded."""
        known = {} if self.mode == "refresh" else self.store.read(keys)
        missing = {
            key: comparison
            for key, comparison in zip(keys, comparisons, strict=True)
            if key not in known
        }
        self.hits += sum(key in known for key in keys)
        self.misses += sum(key not in known for key in keys)
        if missing and (ask is None or self.mode == "readonly"):
            raise self._miss(next(iter(missing.values())), len(missing), len(set(keys)))
        todo = list(missing)
        for start in range(0, len(todo) if ask else 0, self.chunk):
            part = todo[start : start + self.chunk]
            answers = ask([missing[key] for key in part])  # type: ignore[misc]
            values = dict(zip(part, map(to_json, answers), strict=True))
            self.store.write(values, replace=self.mode == "refresh")
            known |= self.store.read(part)  # of two processes that asked, all follow the first
        return [known[key] for key in keys]

    def _miss(self, comparison: Comparison, missing: int, total: int) -> JudgeError:
        return JudgeError(
            f"{self.path}: no recorded answer for query {comparison.query_id}, sample "
            f"{comparison.sample} ({missing} of {total} answers are missing for judge "
            f"{canonical_json(self.namespace)}); {self.remedy}"
        )
