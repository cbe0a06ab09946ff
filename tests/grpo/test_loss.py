"""Losses and advantages against values worked out independently (fp64) for two completions."""

import math

import pytest
import torch

from memrerank.grpo.advantages import Scale, group_advantages
from memrerank.grpo.loss import LossInputs, LossSettings, LossType, Normalizer, policy_loss

MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])


def inputs(reference: bool = True) -> LossInputs:
    def tensor(rows: list[list[float]]) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.float64)

    new = tensor([[-0.5, -1.2, -0.3, -2.0], [-0.7, -0.9, 0.0, 0.0]]).requires_grad_()
    old = tensor([[-0.9, -1.0, -0.35, -1.6], [-0.6, -1.4, 0.0, 0.0]])
    ref = tensor([[-0.6, -1.1, -0.4, -1.9], [-0.8, -1.0, 0.0, 0.0]])
    advantages = torch.tensor([1.0, -1.0], dtype=torch.float64)
    return LossInputs(new, old, MASK, advantages, ref if reference else None)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (LossSettings(LossType.grpo), 0.170849435),
        (LossSettings(LossType.grpo, beta=0.04), 0.171046267),
        (LossSettings(LossType.dapo), -0.197793868),
        (LossSettings(LossType.dapo, clip_high=0.28), -0.211127201),
        (LossSettings(LossType.dapo, beta=0.04), -0.197595924),
        (LossSettings(LossType.dr_grpo, max_length=8), -0.074172700),
        (LossSettings(LossType.gspo), 0.129104170),
    ],
    ids=lambda value: f"{value.type.value}-{value.beta}" if isinstance(value, LossSettings) else "",
)
def test_losses_match_the_reference_values(settings: LossSettings, expected: float) -> None:
    assert policy_loss(inputs(), settings).loss.item() == pytest.approx(expected, abs=1e-6)


def test_dapo_gradient_and_kl_match_the_reference_values() -> None:
    data = inputs()
    output = policy_loss(data, LossSettings(LossType.dapo))
    output.loss.backward()
    expected = torch.tensor(
        [[0, -0.136455, -0.175212, -0.111720], [0.150806, 0.274787, 0, 0]], dtype=torch.float64
    )
    torch.testing.assert_close(data.new.grad, expected, atol=1e-6, rtol=0)
    assert (output.kl_sum / output.tokens).item() == pytest.approx(0.004948585, abs=1e-8)
    # Only the first token's ratio, exp(0.4), is above 1.2 with A > 0; with A < 0 none is below 0.8.
    assert (output.clipped_high.item(), output.clipped_low.item()) == (1, 0)


@pytest.mark.parametrize("kind", list(LossType))
def test_micro_batches_add_up_to_the_whole_step(kind: LossType) -> None:
    settings = LossSettings(kind, beta=0.1, max_length=4)
    whole = inputs()
    policy_loss(whole, settings).loss.backward()
    parts = inputs()
    total = sum(
        policy_loss(
            LossInputs(
                parts.new[i : i + 1],
                parts.old[i : i + 1],
                MASK[i : i + 1],
                parts.advantages[i : i + 1],
                parts.reference[i : i + 1],
            ),
            settings,
            Normalizer(completions=2, tokens=6),
        ).loss
        for i in range(2)
    )
    total.backward()
    torch.testing.assert_close(parts.new.grad, whole.new.grad)


def test_beta_without_a_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="reference"):
        policy_loss(inputs(reference=False), LossSettings(beta=0.1))


def test_advantages_match_the_reference_values() -> None:
    result = group_advantages(torch.tensor([[1, 0.8, 0.6, 0, 0.2, 0.4, 0, 0.6]]))
    expected = [1.5004768, 0.9548489, 0.4092209, -1.2276628, -0.6820349, -0.136407, -1.2276628]
    torch.testing.assert_close(
        result.values, torch.tensor([[*expected, 0.4092209]]), atol=1e-6, rtol=0
    )


def test_a_failed_reward_leaves_the_mean_and_sigma_of_its_group() -> None:
    result = group_advantages(torch.tensor([[1.0, float("nan"), 0.0]]), epsilon=0.0)
    # mean 0.5, unbiased sigma sqrt(0.5)
    expected = torch.tensor([[0.5 / math.sqrt(0.5), 0.0, -0.5 / math.sqrt(0.5)]])
    torch.testing.assert_close(result.values, expected)
    assert result.failed.tolist() == [[False, True, False]]


def test_flat_groups_are_found_in_spite_of_rounding() -> None:
    rewards = torch.tensor([[0.1] * 7, [float("nan")] * 6 + [0.3], [0.1] * 6 + [0.2]])
    result = group_advantages(rewards)
    assert result.flat.tolist() == [True, True, False]
    assert result.values[:2].abs().max().item() == 0.0


def test_sigma_floor_and_scales() -> None:
    rewards = torch.tensor([[0.0, 0.02], [0.0, 1.0]])
    floored = group_advantages(rewards, sigma_floor=0.1, epsilon=0.0)
    torch.testing.assert_close(floored.values[0], torch.tensor([-0.1, 0.1]))
    unscaled = group_advantages(rewards, scale=Scale.none)
    torch.testing.assert_close(unscaled.values, torch.tensor([[-0.01, 0.01], [-0.5, 0.5]]))
    # batch sigma: sqrt((2 * 0.01^2 + 2 * 0.5^2) / 3)
    batch = group_advantages(rewards, scale=Scale.batch, epsilon=0.0)
    sigma = math.sqrt((2 * 0.01**2 + 2 * 0.25) / 3)
    torch.testing.assert_close(batch.values, unscaled.values / sigma)
