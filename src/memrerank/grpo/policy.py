"""The policy's side of a GRPO step: sampling, log-probabilities, and the loss of a batch.

Memory never holds more than one group's activations: each group is a micro-batch of its own, and
the losses are normalised over the whole step, so that they add up to the step's loss.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from peft import PeftModel

from memrerank.grpo.logprobs import PackedGroup, pack_group, token_log_probs, unpack
from memrerank.grpo.loss import LossInputs, LossSettings, Normalizer, policy_loss
from memrerank.schema import RolloutGroup


@dataclass(frozen=True)
class ScoredGroup:
    """A group ready for the loss: packed, with what stays fixed over the step's inner epochs."""

    packed: PackedGroup
    rollouts: int
    width: int  # R, the longest completion
    mask: torch.Tensor  # [G, R]
    advantages: torch.Tensor  # [G]
    reference: torch.Tensor | None = None  # [G, R]
    old: torch.Tensor | None = None  # [G, R]; None: the first pass over the batch is on-policy


@dataclass
class StepStatistics:
    """Sums over the tokens of a step, for the metrics."""

    loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    clipped_low: float = 0.0
    clipped_high: float = 0.0
    tokens: float = 0.0

    def means(self) -> dict[str, float]:
        """Per-token means, by metric name."""
        tokens = max(self.tokens, 1.0)
        return {
            "loss": self.loss,
            "kl": self.kl / tokens,
            "entropy": self.entropy / tokens,
            "clip/low": self.clipped_low / tokens,
            "clip/high": self.clipped_high / tokens,
        }


def score_group(
    model: PeftModel,
    group: RolloutGroup,
    advantages: torch.Tensor,
    *,
    pad_id: int,
    multiple: int,
    temperature: float,
    with_reference: bool,
) -> ScoredGroup:
    """Packs a group and, where the loss needs it, asks the reference (the adapter switched off)."""
    packed = pack_group(group, pad_id, multiple)
    lengths = torch.tensor([len(rollout.token_ids) for rollout in group.rollouts])
    width = int(lengths.max())
    mask = (torch.arange(width)[None] < lengths[:, None]).float()  # [G, R]
    reference = None
    if with_reference:
        with torch.no_grad(), model.disable_adapter():
            values, _ = token_log_probs(model, packed, temperature)
        reference = unpack(values, packed, len(lengths), width)
    return ScoredGroup(packed, len(lengths), width, mask, advantages, reference)


def accumulate_gradients(
    model: PeftModel,
    groups: Sequence[ScoredGroup],
    settings: LossSettings,
    temperature: float,
    backward: Callable[[torch.Tensor], None],
) -> tuple[StepStatistics, list[torch.Tensor]]:
    """One pass over a batch: gradients are added up, log-probabilities [G, R] are returned."""
    normalizer = Normalizer(
        completions=sum(group.rollouts for group in groups),
        tokens=int(sum(group.mask.sum() for group in groups)),
    )
    statistics = StepStatistics()
    log_probs: list[torch.Tensor] = []
    for group in groups:
        # A flat group has no gradient, unless the KL penalty gives it one.
        flat = not bool(group.advantages.any()) and not settings.beta
        with torch.no_grad() if flat else nullcontext():
            values, entropy = token_log_probs(model, group.packed, temperature)  # [N]
            new = unpack(values, group.packed, group.rollouts, group.width)  # [G, R]
            old = new.detach() if group.old is None else group.old
            output = policy_loss(
                LossInputs(
                    new,
                    old,
                    group.mask.to(new.device),
                    group.advantages.to(new.device),
                    group.reference,
                ),
                settings,
                normalizer,
            )
        if not flat:
            backward(output.loss)
        log_probs.append(new.detach())
        statistics.loss += output.loss.item()
        statistics.kl += output.kl_sum.item()
        statistics.entropy += entropy.sum().item()
        statistics.clipped_low += output.clipped_low.item()
        statistics.clipped_high += output.clipped_high.item()
        statistics.tokens += output.tokens.item()
    return statistics, log_probs
