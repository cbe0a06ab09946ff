"""Gradients of a whole step against one loss over all completions, scored the plain way."""

from dataclasses import replace

import pytest
import torch
from peft import PeftModel
from small_policies import gradients, plain_log_probs, random_group, small_policy
from tiny import random_llama

from memrerank.grpo.loss import LossInputs, LossSettings, LossType, policy_loss
from memrerank.grpo.policy import (
    ScoredGroup,
    StepStatistics,
    accumulate_gradients,
    score_group,
)

TEMPERATURE = 0.8
GROUPS = [random_group(9, [5, 1, 8], seed=0), random_group(14, [2, 2, 3], seed=1)]
ADVANTAGES = torch.tensor([[1.0, -0.4, -0.6], [0.5, 0.5, -1.0]])
WIDTH = 8


@pytest.fixture
def policy() -> PeftModel:
    return small_policy(random_llama())


def score(
    policy: PeftModel,
    advantages: torch.Tensor = ADVANTAGES,
    with_reference: bool = False,
) -> list[ScoredGroup]:
    return [
        score_group(
            policy,
            group,
            row,
            pad_id=1,
            multiple=8,
            temperature=TEMPERATURE,
            with_reference=with_reference,
        )
        for group, row in zip(GROUPS, advantages, strict=True)
    ]


def step(
    policy: PeftModel, groups: list[ScoredGroup], settings: LossSettings
) -> tuple[StepStatistics, list[torch.Tensor], int]:
    """One pass, and how many backward passes it took."""
    losses: list[torch.Tensor] = []

    def backward(loss: torch.Tensor) -> None:
        losses.append(loss.detach())
        loss.backward()

    statistics, log_probs = accumulate_gradients(policy, groups, settings, TEMPERATURE, backward)
    return statistics, log_probs, len(losses)


def rows(model: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain log-probabilities and mask of all completions, each [6, WIDTH]."""
    values = [v for group in GROUPS for v, _ in plain_log_probs(model, group, TEMPERATURE)]
    padded = [torch.cat([v, v.new_zeros(WIDTH - len(v))]) for v in values]
    mask = torch.tensor([[float(i < len(v)) for i in range(WIDTH)] for v in values])
    return torch.stack(padded), mask


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize("type", list(LossType))
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_group_by_group_adds_up_to_the_loss_of_the_whole_batch(
    policy: PeftModel, type: LossType, beta: float
) -> None:
    settings = LossSettings(type, beta=beta, max_length=10)
    new, mask = rows(policy)
    reference = None
    if beta:
        with torch.no_grad(), policy.disable_adapter():
            reference, _ = rows(policy)
    whole = policy_loss(
        LossInputs(new, new.detach(), mask, ADVANTAGES.flatten(), reference), settings
    )
    whole.loss.backward()
    expected = gradients(policy)

    statistics, log_probs, backwards = step(
        policy, score(policy, with_reference=beta > 0), settings
    )
    found = gradients(policy)

    assert backwards == 2
    assert statistics.loss == pytest.approx(whole.loss.item(), abs=1e-5)
    assert statistics.kl == pytest.approx(whole.kl_sum.item(), rel=1e-4, abs=1e-5)
    assert statistics.tokens == 21  # 5 + 1 + 8 + 2 + 2 + 3
    assert max(gradient.abs().max() for gradient in expected.values()) > 1e-3
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(log_probs[0], new[:3].detach(), rtol=0, atol=1e-5)
    torch.testing.assert_close(log_probs[1], new[3:, :3].detach(), rtol=0, atol=1e-5)


def test_the_reference_is_the_model_without_its_adapter(policy: PeftModel) -> None:
    scored = score(policy, with_reference=True)
    plain = [v for v, _ in plain_log_probs(random_llama(), GROUPS[0], TEMPERATURE)]
    reference = scored[0].reference
    assert reference is not None
    assert not reference.requires_grad
    for row, values in zip(reference, plain, strict=True):
        torch.testing.assert_close(row[: len(values)], values, rtol=0, atol=1e-5)
        assert not row[len(values) :].any()
    assert score(policy)[0].reference is None


def test_the_mask_follows_the_lengths(policy: PeftModel) -> None:
    first, second = score(policy)
    assert first.mask.sum(-1).tolist() == [5, 1, 8]
    assert first.mask[1].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert (first.width, second.width) == (8, 3)


def test_entropy_is_summed_over_tokens(policy: PeftModel) -> None:
    plain = [e for group in GROUPS for _, e in plain_log_probs(policy, group, TEMPERATURE)]
    statistics, _, _ = step(policy, score(policy), LossSettings())
    assert statistics.entropy == pytest.approx(torch.cat(plain).sum().item(), rel=1e-5)


# ---------------------------------------------------------------- groups without a signal


def test_flat_groups_give_no_gradient(policy: PeftModel) -> None:
    statistics, log_probs, backwards = step(
        policy, score(policy, torch.zeros(2, 3)), LossSettings()
    )
    assert backwards == 0
    assert gradients(policy) == {}
    assert statistics.loss == 0
    assert statistics.tokens == 21  # they still count in the metrics
    assert [values.shape for values in log_probs] == [(3, 8), (3, 3)]


def test_a_flat_group_changes_only_what_the_others_are_divided_by(policy: PeftModel) -> None:
    step(policy, score(policy)[:1], LossSettings())
    alone = gradients(policy)
    half_flat = ADVANTAGES * torch.tensor([[1.0], [0.0]])
    _, _, backwards = step(policy, score(policy, half_flat), LossSettings())
    found = gradients(policy)
    assert backwards == 1
    for name in alone:  # 3 completions of 6
        torch.testing.assert_close(found[name], alone[name] / 2, rtol=1e-4, atol=1e-6)


def test_the_kl_penalty_pulls_flat_groups_too(policy: PeftModel) -> None:
    flat = score(policy, torch.zeros(2, 3), with_reference=True)
    statistics, _, backwards = step(policy, flat, LossSettings(beta=0.1))
    assert backwards == 2
    assert statistics.kl > 0
    assert max(gradient.abs().max() for gradient in gradients(policy).values()) > 0


# ---------------------------------------------------------------- off policy


def test_old_log_probs_make_the_ratio(policy: PeftModel) -> None:
    groups = score(policy)
    _, old, _ = step(policy, groups, LossSettings())
    gradients(policy)
    with torch.no_grad():
        for name, weight in policy.named_parameters():
            if "lora_B" in name:
                weight *= 3  # as if an optimizer had gone far
    settings = LossSettings(clip_low=0.1, clip_high=0.2)
    moved = [replace(group, old=values) for group, values in zip(groups, old, strict=True)]
    statistics, new, _ = step(policy, moved, settings)

    rebuilt, mask = rows(policy)
    before = torch.zeros(6, WIDTH)
    before[:3], before[3:, :3] = old[0], old[1]
    whole = policy_loss(LossInputs(rebuilt.detach(), before, mask, ADVANTAGES.flatten()), settings)
    assert statistics.loss == pytest.approx(whole.loss.item(), abs=1e-4)
    ratio = ((rebuilt.detach() - before) * mask).exp()
    advantages = ADVANTAGES.flatten()[:, None]
    assert statistics.clipped_low == ((ratio < 0.9) & (advantages < 0) & (mask > 0)).sum()
    assert statistics.clipped_high == ((ratio > 1.2) & (advantages > 0) & (mask > 0)).sum()
    assert statistics.clipped_low > 0
    assert statistics.clipped_high > 0
    assert not torch.allclose(new[0], old[0])


def test_statistics_are_means_over_tokens() -> None:
    sums = StepStatistics(
        loss=0.5, kl=2.0, entropy=10.0, clipped_low=1.0, clipped_high=3.0, tokens=4.0
    )
    assert sums.means() == {
        "loss": 0.5,
        "kl": 0.5,
        "entropy": 2.5,
        "clip/low": 0.25,
        "clip/high": 0.75,
    }


def test_groups_of_one_step_may_differ_in_size(policy: PeftModel) -> None:
    sizes = [random_group(5, [2, 4, 3], seed=3), random_group(6, [4], seed=4)]
    advantages = [torch.tensor([1.0, 0.0, -1.0]), torch.tensor([0.7])]
    scored = [
        score_group(policy, group, row, pad_id=1, multiple=8, temperature=1.0, with_reference=False)
        for group, row in zip(sizes, advantages, strict=True)
    ]
    statistics, _, _ = step(policy, scored, LossSettings())
    # On-policy ratios are 1: minus the mean advantage of the four completions.
    assert statistics.loss == pytest.approx(-0.7 / 4, abs=1e-6)
