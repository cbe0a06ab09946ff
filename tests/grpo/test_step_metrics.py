"""The means that a step reports: every number is worked out by hand."""

import numpy as np
import pytest
import torch

from memrerank.grpo.advantages import group_advantages
from memrerank.grpo.module import length_metrics, reward_metrics
from memrerank.schema import Rewards, Rollout, RolloutGroup

NAN = float("nan")


def test_reward_metrics_by_hand() -> None:
    total = np.array([[1.0, 0.0, NAN], [0.5, 0.5, 0.5]])
    utility = np.array([[0.8, 0.2, NAN], [NAN, NAN, NAN]])
    metrics = reward_metrics(
        Rewards(total, {"utility": utility}), group_advantages(torch.from_numpy(total))
    )
    assert metrics == {
        "reward": pytest.approx(2.5 / 5),
        "reward/utility": pytest.approx(0.5),
        "reward/group_std": pytest.approx((2 * 0.25 / 5) ** 0.5),  # deviations .5 -.5, 0 0 0
        "flat_groups": 0.5,
        "failed_rewards": pytest.approx(1 / 6),
    }


@pytest.mark.filterwarnings("error")
def test_reward_metrics_of_a_group_that_failed_as_a_whole() -> None:
    total = np.array([[NAN, NAN], [1.0, 0.0]])
    metrics = reward_metrics(Rewards(total), group_advantages(torch.from_numpy(total)))
    assert metrics["reward"] == 0.5
    assert metrics["reward/group_std"] == 0.5
    assert metrics["flat_groups"] == 0.5
    everything = np.full((1, 2), NAN)
    lost = reward_metrics(Rewards(everything), group_advantages(torch.from_numpy(everything)))
    assert np.isnan(lost["reward"])
    assert lost["failed_rewards"] == 1.0


def test_length_metrics_by_hand() -> None:
    def rollout(length: int, truncated: bool) -> Rollout:
        return Rollout((5,) * length, (0.0,) * length, "", truncated)

    groups = [
        RolloutGroup((1,), (rollout(2, False), rollout(6, True))),
        RolloutGroup((1,), (rollout(1, False), rollout(3, False))),
    ]
    assert length_metrics(groups) == {
        "completion/mean_tokens": 3.0,
        "completion/max_tokens": 6.0,
        "completion/truncated": 0.25,
    }
