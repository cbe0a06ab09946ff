"""Group-relative advantages (GRPO, arXiv 2402.03300, section 4.1.2)."""

from dataclasses import dataclass
from enum import StrEnum

import torch


class Scale(StrEnum):
    """What a group's centred rewards are divided by."""

    group = "group"  # the group's own standard deviation (GRPO)
    batch = "batch"  # the standard deviation of all centred rewards of the step
    none = "none"  # nothing (Dr. GRPO)


@dataclass(frozen=True)
class Advantages:
    """Advantages of a batch of groups, and which groups carry no signal.

    `values` is [B, G], zero for failed rollouts and flat groups. `flat` is [B]: fewer than two
    valid rewards, or all of them equal.
    """

    values: torch.Tensor
    flat: torch.Tensor
    failed: torch.Tensor  # [B, G] bool, the reward was NaN


def group_advantages(
    rewards: torch.Tensor,
    *,
    scale: Scale = Scale.group,
    sigma_floor: float = 0.0,
    epsilon: float = 1e-4,
) -> Advantages:
    """(reward - group mean) / (sigma + epsilon), with failed rewards left out of both.

    Args:
        rewards: [B, G], NaN where a reward could not be had.
        scale: what sigma is. Standard deviations are unbiased (n - 1).
        sigma_floor: sigma is at least this. Without a floor, a group whose rewards differ by noise
            alone gets advantages as large as one with a real difference.
        epsilon: added to sigma.
    """
    rewards = rewards.float()
    valid = ~rewards.isnan()  # [B, G]
    count = valid.sum(-1, keepdim=True)  # [B, 1]
    filled = rewards.masked_fill(~valid, 0.0)
    mean = filled.sum(-1, keepdim=True) / count.clamp(min=1)
    centred = (filled - mean).masked_fill(~valid, 0.0)  # [B, G]

    # Equality is tested on the rewards themselves: fp32 residue makes a constant group's centred
    # rewards non-zero, and division by a tiny sigma would blow that residue up.
    highest = rewards.masked_fill(~valid, float("-inf")).amax(-1)
    lowest = rewards.masked_fill(~valid, float("inf")).amin(-1)
    flat = (count[:, 0] < 2) | (highest <= lowest)  # [B]
    centred = centred.masked_fill(flat[:, None], 0.0)

    if scale is Scale.none:
        values = centred
    else:
        if scale is Scale.group:
            sigma = (centred.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
        else:
            live = valid & ~flat[:, None]
            sigma = (centred.square().sum() / (live.sum() - 1).clamp(min=1)).sqrt()
        values = centred / (sigma.clamp(min=sigma_floor) + epsilon)
    return Advantages(values, flat, ~valid)
