"""The setwise reward with scripted judges: every number is worked out by hand."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from memrerank.errors import ConfigError
from memrerank.reward.setwise import SetwiseReward
from memrerank.schema import (
    Choice,
    Comparison,
    Failure,
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


def group(query_id: str, positive: int, *texts: str) -> RolloutGroup:
    query = Query(query_id, f"text of {query_id}", "u", f"p{positive}", "Electronics", 9)
    instance = SetwiseInstance(f"{query_id}/bm25/0", query_id, "bm25", PRODUCTS, positive)
    case = TrainingCase(query, History("u", "Electronics", (), ()), instance)
    rollouts = tuple(Rollout((), (), text, False) for text in texts)
    return RolloutGroup((), rollouts, case)


class ScriptedJudge:
    """Answers by (memory text, sample); 0 where the script is silent."""

    def __init__(self, script: dict[str, list[int | None]]) -> None:
        self.script = script
        self.batches: list[list[Comparison]] = []

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        self.batches.append(list(comparisons))
        return [Choice(self.script.get(c.memory.within, [0] * 9)[c.sample]) for c in comparisons]


class CertainJudge(ScriptedJudge):
    def distribution(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        self.batches.append(list(comparisons))
        return [
            Choice(None, failure=Failure.invalid)
            if c.memory.within == "unread"
            else Choice(2, probabilities=(0.1, 0.2, 0.3, 0.15, 0.25))
            for c in comparisons
        ]


def wrap(text: str) -> str:
    return f"<within_category>{text}</within_category>"


def test_utility_is_the_share_of_valid_answers_that_pick_the_positive() -> None:
    judge = ScriptedJudge(
        {
            "likes red": [2, 2, 0, 1, 2],
            "likes blue": [2, None, 0, None, 1],
            "likes green": [None] * 5,
        }
    )
    reward = SetwiseReward(judge, Target.w, quality_weight=0.1)
    rewards = reward([group("q", 2, wrap("likes red"), wrap("likes blue"), wrap("likes green"))])
    utility, invalid = rewards.components["utility"], rewards.components["invalid"]
    np.testing.assert_allclose(utility, [[0.6, 1 / 3, math.nan]])
    np.testing.assert_allclose(invalid, [[0.0, 0.4, 1.0]])
    np.testing.assert_allclose(rewards.components["quality"], [[1.0, 1.0, 1.0]])
    np.testing.assert_allclose(rewards.total, [[0.7, 1 / 3 + 0.1, math.nan]])
    np.testing.assert_allclose(rewards.components["memory_words"], [[2, 2, 2]])


def test_all_groups_are_judged_in_one_batch_and_equal_memories_once() -> None:
    judge = ScriptedJudge({"a b": [1, 1, 0]})
    reward = SetwiseReward(judge, Target.w, samples=3, quality_weight=0.0)
    spaced = "<within_category> a  b <evidence>pan</evidence></within_category>"
    rewards = reward([group("q1", 1, wrap("a b"), spaced), group("q2", 0, wrap("a b"), wrap("c"))])
    np.testing.assert_allclose(rewards.total, [[2 / 3, 2 / 3], [1 / 3, 1.0]])
    (batch,) = judge.batches
    assert [(c.query_id, c.memory.within, c.sample) for c in batch] == [
        *(("q1", "a b", sample) for sample in range(3)),
        *(("q2", "a b", sample) for sample in range(3)),
        *(("q2", "c", sample) for sample in range(3)),
    ]
    assert batch[0].candidates == PRODUCTS
    assert batch[0].query == "text of q1"


def test_a_malformed_memory_costs_quality_but_not_utility() -> None:
    judge = ScriptedJudge({"red": [3] * 5})
    reward = SetwiseReward(judge, Target.w, quality_weight=0.5)
    rewards = reward([group("q", 3, wrap("red"), "<within_category>red")])
    np.testing.assert_allclose(rewards.components["utility"], [[1.0, 1.0]])
    np.testing.assert_allclose(rewards.total, [[1.5, 1.0 + 0.5 * (1 - 0.3 / 3)]])
    assert len(judge.batches[0]) == 5  # flaws are not shown to the judge


def test_expected_utility_is_the_probability_of_the_positive() -> None:
    judge = CertainJudge({})
    reward = SetwiseReward(judge, Target.w, utility="expected", quality_weight=0.0)
    rewards = reward([group("q1", 2, wrap("a")), group("q2", 4, wrap("unread"))])
    np.testing.assert_allclose(rewards.total, [[0.3], [math.nan]])
    assert [c.sample for c in judge.batches[0]] == [0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"utility": "expected"}, "reward.utility=expected: this judge cannot"),
        ({"samples": 0}, "reward.samples=0"),
    ],
)
def test_settings_that_cannot_work(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SetwiseReward(ScriptedJudge({}), Target.w, **options)


def test_a_group_without_its_case_is_refused() -> None:
    with pytest.raises(ValueError, match="case"):
        SetwiseReward(ScriptedJudge({}), Target.w)(
            [RolloutGroup((), (Rollout((), (), "", False),))]
        )
