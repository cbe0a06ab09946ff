"""The reward on recorded answers equals the reward that recorded them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memrerank.errors import JudgeError
from memrerank.rerank.cache import CachedReranker
from memrerank.reward.cached import CachedReward
from memrerank.reward.setwise import SetwiseReward
from memrerank.schema import (
    Choice,
    Comparison,
    History,
    Product,
    Query,
    Rollout,
    RolloutGroup,
    SetwiseInstance,
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
        return [Choice((1, 1, None, 0, 3)[c.sample]) for c in comparisons]


def test_a_replay_gives_the_recorded_rewards(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    recorder = CachedReranker(Judge(), path, "readwrite", SPACE)
    groups = [group("red", "blue")]
    recorded = SetwiseReward(recorder, Target.w)(groups)
    replayed = CachedReward(path, SPACE, Target.w)(groups)
    np.testing.assert_array_equal(replayed.components["utility"], [[0.5, 0.5]])
    np.testing.assert_array_equal(replayed.total, recorded.total)


def test_a_miss_names_query_sample_file_and_setting(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    SetwiseReward(CachedReranker(Judge(), path, "readwrite", SPACE), Target.w)([group("red")])
    message = r"answers.sqlite: no recorded answer for query q, sample 0 .*set reward=setwise"
    with pytest.raises(JudgeError, match=message):
        CachedReward(path, SPACE, Target.w)([group("green")])
    with pytest.raises(JudgeError, match=r"sample 0 .*\"model\":\"other\""):
        CachedReward(path, {"model": "other"}, Target.w)([group("red")])
    with pytest.raises(JudgeError, match=r"nowhere.sqlite: no recorded answers there; set reward"):
        CachedReward(tmp_path / "nowhere.sqlite", SPACE, Target.w)


def test_a_replay_needs_the_same_candidates(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    SetwiseReward(CachedReranker(Judge(), path, "readwrite", SPACE), Target.w)([group("red")])
    instance = replace(CASE.instance, candidates=PRODUCTS[::-1], positive=3)
    moved = replace(group("red"), case=replace(CASE, instance=instance))
    with pytest.raises(JudgeError, match="no recorded answer for query q"):
        CachedReward(path, SPACE, Target.w)([moved])
