"""Policy-gradient losses over grouped rollouts, as pure functions of tensors.

`grpo` (arXiv 2402.03300): clipped token ratios, averaged per completion, then over completions.
`dapo` (arXiv 2503.14476): the same, averaged over all tokens of the batch.
`dr_grpo` (arXiv 2503.20783): summed over tokens, divided by completions times a fixed length.
`gspo` (arXiv 2507.18071): one length-normalised ratio per completion, averaged as in `grpo`.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch


class LossType(StrEnum):
    """How ratios are formed and how token losses are averaged."""

    grpo = "grpo"
    dapo = "dapo"
    dr_grpo = "dr_grpo"
    gspo = "gspo"


@dataclass(frozen=True)
class LossSettings:
    """The loss's constants."""

    type: LossType = LossType.grpo
    clip_low: float = 0.2  # ratios below 1 - clip_low gain nothing by falling further
    clip_high: float = 0.2
    beta: float = 0.0  # weight of the KL penalty against the reference
    max_length: int = 1  # dr_grpo's fixed divisor, tokens


@dataclass(frozen=True)
class LossInputs:
    """What the loss is a function of; B completions of at most R tokens."""

    new: torch.Tensor  # [B, R] log-probabilities under the policy, with gradient
    old: torch.Tensor  # [B, R] under the policy that sampled
    mask: torch.Tensor  # [B, R] 1 where there is a completion token
    advantages: torch.Tensor  # [B]
    reference: torch.Tensor | None = None  # [B, R], needed where beta > 0


@dataclass(frozen=True)
class Normalizer:
    """Counts over the WHOLE step: micro-batch losses divided by them add up to the step's loss."""

    completions: int
    tokens: int


@dataclass(frozen=True)
class LossOutput:
    """The loss and, detached, what is worth watching (sums over tokens, for averaging later)."""

    loss: torch.Tensor  # scalar
    kl_sum: torch.Tensor  # scalar, k3 estimate summed over tokens; 0 without a reference
    clipped_low: torch.Tensor  # scalar, tokens whose gradient the lower clip cut
    clipped_high: torch.Tensor  # scalar
    tokens: torch.Tensor  # scalar


def policy_loss(
    inputs: LossInputs, settings: LossSettings, normalizer: Normalizer | None = None
) -> LossOutput:
    """The loss of a (micro-)batch, its share of the step's where a normalizer is given.

    -min(ratio * A, clip(ratio) * A) + beta * k3, where k3 = exp(d) - d - 1 with d = ref - new
    is the unbiased, non-negative estimate of the KL divergence to the reference.
    """
    mask = inputs.mask.to(inputs.new.dtype)
    if normalizer is None:
        normalizer = Normalizer(len(mask), int(mask.sum()))
    log_ratio = (inputs.new - inputs.old) * mask  # [B, R]
    if settings.type is LossType.gspo:
        lengths = mask.sum(-1, keepdim=True).clamp(min=1)
        log_ratio = log_ratio.sum(-1, keepdim=True) / lengths * torch.ones_like(mask)
    ratio = log_ratio.exp()  # [B, R]
    advantages = inputs.advantages[:, None]  # [B, 1]
    low, high = 1 - settings.clip_low, 1 + settings.clip_high
    token_loss = -torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)  # [B, R]

    kl = torch.zeros_like(token_loss)
    if inputs.reference is not None:
        difference = (inputs.reference - inputs.new) * mask
        kl = difference.exp() - difference - 1  # [B, R]
    if settings.beta:
        if inputs.reference is None:
            raise ValueError("beta > 0 needs reference log-probabilities")
        token_loss = token_loss + settings.beta * kl

    return LossOutput(
        loss=_average(token_loss * mask, mask, settings, normalizer),
        kl_sum=(kl * mask).sum().detach(),
        clipped_low=((ratio < low) & (advantages < 0) & (mask > 0)).sum(),
        clipped_high=((ratio > high) & (advantages > 0) & (mask > 0)).sum(),
        tokens=mask.sum(),
    )


def _average(
    masked_loss: torch.Tensor, mask: torch.Tensor, settings: LossSettings, normalizer: Normalizer
) -> torch.Tensor:
    """Masked token losses [B, R] to a scalar, by the loss type's average."""
    match settings.type:
        case LossType.grpo | LossType.gspo:
            per_completion = masked_loss.sum(-1) / mask.sum(-1).clamp(min=1)  # [B]
            return per_completion.sum() / max(normalizer.completions, 1)
        case LossType.dapo:
            return masked_loss.sum() / max(normalizer.tokens, 1)
        case LossType.dr_grpo:
            return masked_loss.sum() / (max(normalizer.completions, 1) * settings.max_length)
