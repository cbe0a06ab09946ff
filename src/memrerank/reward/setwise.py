"""The paper's reward: how often the reranker, given the memory, picks the product that was
bought, plus a smaller term for the quality of the memory (paper, section on training)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from memrerank.errors import ConfigError
from memrerank.memory.parsing import ParsedMemory, parse_memory
from memrerank.memory.quality import QualitySettings, memory_quality
from memrerank.schema import (
    Comparison,
    Memory,
    Question,
    Rewards,
    RolloutGroup,
    SetwiseReranker,
    Target,
    TrainingCase,
    answers,
)


class Utility(StrEnum):
    """How the judge's feedback becomes a number."""

    sampled = "sampled"  # the share of `samples` answers that pick the positive (paper)
    expected = "expected"  # the judge's own probability of the positive


class SetwiseReward:
    """total = utility + quality_weight * quality, each [groups, rollouts].

    `utility="sampled"` is the share of `samples` answers that pick the positive (paper: 5);
    `"expected"` is the judge's own probability of the positive, without sampling noise.
    A rollout without any valid answer gets NaN, never 0; single invalid answers are left out
    of the share. Components: utility, quality and its parts, `invalid` (share of answers),
    `memory_words`.
    """

    def __init__(
        self,
        reranker: SetwiseReranker,
        target: Target,
        samples: int = 5,  # paper
        utility: Utility = Utility.sampled,  # paper
        quality_weight: float = 0.1,  # our choice
        quality: QualitySettings | None = None,
    ) -> None:
        """Raises ConfigError when the settings do not go together."""
        utility = Utility(utility)
        question = Question.distribution if utility is Utility.expected else Question.choose
        if not answers(reranker, question):
            raise ConfigError(
                "reward.utility=expected: this judge cannot give its distribution; set "
                "reward.utility=sampled, or choose another reranker (a language model behind an "
                "API can where it returns log-probabilities: reranker.logprobs=true)"
            )
        if samples < 1:
            raise ConfigError(f"reward.samples={samples}: at least 1 answer is needed")
        self.reranker = reranker
        self.target = target
        self.samples = samples if utility is Utility.sampled else 1
        self.utility = utility
        self.quality_weight = quality_weight
        self.quality = quality or QualitySettings()

    def __call__(self, groups: Sequence[RolloutGroup]) -> Rewards:
        """Scores every rollout with one batched call of the judge for all groups."""
        parsed = [
            [parse_memory(rollout.text, self.target) for rollout in group.rollouts]
            for group in groups
        ]
        verdicts = self._judge(groups, parsed)
        parts = [
            [
                self._score(groups[g], r, parsed[g][r], verdicts[g, _shown(parsed[g][r].memory)])
                for r in range(len(groups[g].rollouts))
            ]
            for g in range(len(groups))
        ]
        names = list(parts[0][0]) if parts and parts[0] else ["utility", "quality"]
        components = {
            name: np.array([[part[name] for part in row] for row in parts]) for name in names
        }
        total = components["utility"] + self.quality_weight * components["quality"]
        return Rewards(total=total, components=components)

    def _score(
        self, group: RolloutGroup, index: int, parsed: ParsedMemory, verdict: "_Verdict"
    ) -> dict[str, float]:
        """All components of one rollout."""
        raw_words = len(group.rollouts[index].text.split())
        history = _case(group).history
        return {
            "utility": verdict.utility,
            "invalid": verdict.invalid,
            "memory_words": float(len(parsed.memory.text.split())),
            **memory_quality(parsed, raw_words, history, self.target, self.quality),
        }

    def _judge(
        self, groups: Sequence[RolloutGroup], parsed: Sequence[Sequence[ParsedMemory]]
    ) -> dict[tuple[int, Memory], "_Verdict"]:
        """Verdicts by group and memory: equal memories of a group are judged once."""
        keys = [
            (g, memory)
            for g, row in enumerate(parsed)
            for memory in dict.fromkeys(_shown(item.memory) for item in row)
        ]
        comparisons = [
            _comparison(_case(groups[g]), memory, sample)
            for g, memory in keys
            for sample in range(self.samples)
        ]
        positives = [_case(groups[g]).instance.positive for g, _ in keys]
        hits = self._hits(comparisons, np.repeat(positives, self.samples))
        return {
            key: _verdict(row)
            for key, row in zip(keys, hits.reshape(-1, self.samples), strict=True)
        }

    def _hits(self, comparisons: Sequence[Comparison], positives: np.ndarray) -> np.ndarray:
        """How far each answer picks its positive, in [0, 1]; NaN for an invalid answer."""
        if not comparisons:
            return np.empty(0)
        if self.utility is Utility.expected:
            told = self.reranker.distribution(comparisons)  # type: ignore[attr-defined]
            shares = [
                c.probabilities[i] if c.probabilities else math.nan
                for c, i in zip(told, positives, strict=True)
            ]
            return np.array(shares, dtype=np.float64)
        choices = self.reranker.choose(comparisons)
        return np.array(
            [
                math.nan if choice.index is None else float(choice.index == positive)
                for choice, positive in zip(choices, positives, strict=True)
            ]
        )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What the judge made of one memory."""

    utility: float
    invalid: float


def _verdict(hits: np.ndarray) -> _Verdict:
    """The mean of the valid answers, and the share of invalid ones; `hits` is [samples]."""
    valid = hits[~np.isnan(hits)]
    utility = float(valid.mean()) if valid.size else math.nan
    return _Verdict(utility, 1.0 - valid.size / hits.size)


def _shown(memory: Memory) -> Memory:
    """The memory as the judge sees it: two texts that read the same are one question."""
    return Memory(memory.within, memory.cross)


def _comparison(case: TrainingCase, memory: Memory, sample: int) -> Comparison:
    return Comparison(
        query_id=case.query.id,
        query=case.query.text,
        memory=memory,
        candidates=case.instance.candidates,
        sample=sample,
    )


def _case(group: RolloutGroup) -> TrainingCase:
    if group.case is None:
        raise ValueError("a rollout group without its case cannot be rewarded")
    return group.case
