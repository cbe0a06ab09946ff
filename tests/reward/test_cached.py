"""The reward on recorded answers equals the reward that recorded them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.asking import Asker
from memrerank.rerank.cache import CachedReranker
from memrerank.reward.cached import CachedReward
from memrerank.reward.setwise import SetwiseReward
from memrerank.schema import (
    Choice,
    Comparison,
    Failure,
    History,
    Product,
    Query,
    Rewards,
    Rollout,
    RolloutGroup,
    SetwiseInstance,
    SetwiseReranker,
    Target,
    TrainingCase,
)

PRODUCTS = tuple(Product(f"p{i}", f"product {i}", "", "Electronics") for i in range(5))
CASE = TrainingCase(
    Query("q", "a lamp", "u", "p1", "Electronics", 9),
    History("u", "Electronics", (), ()),
    SetwiseInstance("q/bm25/0", "q", "bm25", PRODUCTS, 1),
)
SPACE = {"model": "m"}


def group(*texts: str) -> RolloutGroup:
    rollouts = tuple(
        Rollout((), (), f"<within_category>{text}</within_category>", False) for text in texts
    )
    return RolloutGroup((), rollouts, CASE)


class Judge:
    """Picks by sample: the positive for samples 0 and 1, no answer for 2, another for the rest."""

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        return [self._choice(c) for c in comparisons]

    def _choice(self, comparison: Comparison) -> Choice:
        wanted = ("p1", "p1", None, "p0", "p3")[comparison.sample]
        ids = [product.id for product in comparison.candidates]
        failure = Failure.invalid if wanted is None else None
        return Choice(None if wanted is None else ids.index(wanted), failure=failure)


def asker(judge: SetwiseReranker) -> Asker:
    return Asker(judge, seed=0, max_reasks=1)


def record(path: Path, *texts: str) -> tuple[Asker, Rewards]:
    """A recording of the rewards of one group, and those rewards."""
    recorder = asker(CachedReranker(Judge(), path / "answers.sqlite", "readwrite", SPACE))
    return recorder, SetwiseReward(recorder, Target.w)([group(*texts)])


def test_a_replay_gives_the_recorded_rewards(tmp_path: Path) -> None:
    recorder, recorded = record(tmp_path, "red", "blue")
    replayed = CachedReward(recorder, Target.w)([group("red", "blue")])
    np.testing.assert_array_equal(replayed.components["utility"], [[0.5, 0.5]])
    np.testing.assert_array_equal(replayed.total, recorded.total)


def test_a_miss_names_query_sample_file_and_setting(tmp_path: Path) -> None:
    recorder, _ = record(tmp_path, "red")
    message = r"answers.sqlite: no recorded answer for query q, sample 0 .*set reward=setwise"
    with pytest.raises(JudgeError, match=message):
        CachedReward(recorder, Target.w)([group("green")])  # the recorder itself would ask
    other = asker(CachedReranker(None, recorder.judge.path, "readonly", {"model": "other"}))
    with pytest.raises(JudgeError, match=r"sample 0 .*\"model\":\"other\""):
        CachedReward(other, Target.w)([group("red")])


def test_a_replay_needs_a_recording(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"this judge has no recorded answers; set judge_cache"):
        CachedReward(asker(Judge()), Target.w)
    empty = asker(CachedReranker(Judge(), tmp_path / "nowhere.sqlite", "readwrite", SPACE))
    with pytest.raises(JudgeError, match=r"nowhere.sqlite: no recorded answers there; set reward"):
        CachedReward(empty, Target.w)


def test_a_replay_needs_the_same_candidates(tmp_path: Path) -> None:
    recorder, recorded = record(tmp_path, "red")
    turned = replace(CASE.instance, candidates=PRODUCTS[::-1], positive=3)
    moved = replace(group("red"), case=replace(CASE, instance=turned))
    replayed = CachedReward(recorder, Target.w)([moved])  # how they are shown is the asker's
    np.testing.assert_array_equal(replayed.total, recorded.total)
    other = replace(CASE.instance, candidates=(*PRODUCTS[:4], Product("p9", "x", "", "Toys")))
    moved = replace(group("red"), case=replace(CASE, instance=other))
    with pytest.raises(JudgeError, match="no recorded answer for query q"):
        CachedReward(recorder, Target.w)([moved])
