"""Log-probabilities of a group's completions under a model.

The completions of a group share their prompt, so the pass is one packed sequence: the prompt once,
then every completion, with position ids and a block mask that let each completion see the prompt
and itself alone. P + G*R tokens instead of G*(P + R). Only the positions that predict a completion
token are projected to the vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from torch.utils.checkpoint import checkpoint

from memrerank.memory.sampling import Policy, round_up
from memrerank.schema import RolloutGroup


@dataclass(frozen=True)
class PackedGroup:
    """One group as one sequence of T tokens (padded), with N completion tokens in all."""

    input_ids: torch.Tensor  # [1, T]
    position_ids: torch.Tensor  # [1, T]
    allowed: torch.Tensor  # [1, 1, T, T] bool: query position may attend to key position
    predictors: torch.Tensor  # [N] positions whose output predicts a completion token
    targets: torch.Tensor  # [N] the completion tokens
    rollout: torch.Tensor  # [N] which rollout each token belongs to
    offset: torch.Tensor  # [N] the token's place in its completion


def pack_group(group: RolloutGroup, pad_id: int, multiple: int = 64) -> PackedGroup:
    """Lays a group out as prompt, completion 1, ..., completion G, padding."""
    prompt = len(group.prompt_ids)
    lengths = [len(rollout.token_ids) for rollout in group.rollouts]
    starts = [prompt + sum(lengths[:i]) for i in range(len(lengths))]
    total = prompt + sum(lengths)
    width = round_up(total, multiple)

    ids = torch.full((width,), pad_id)
    ids[:total] = torch.tensor(
        [*group.prompt_ids, *(t for rollout in group.rollouts for t in rollout.token_ids)]
    )
    segment = torch.full((width,), -2)  # -1: prompt, 0..G-1: completions, -2: padding
    segment[:prompt] = -1
    positions = torch.zeros(width, dtype=torch.long)
    positions[:prompt] = torch.arange(prompt)
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        segment[start : start + length] = i
        positions[start : start + length] = prompt + torch.arange(length)

    causal = torch.ones(width, width, dtype=torch.bool).tril()
    allowed = causal & ((segment[:, None] == segment[None, :]) | (segment[None, :] == -1))

    rollout = segment[prompt:total]  # [N]
    offset = positions[prompt:total] - prompt  # [N]
    # A completion's first token is predicted by the prompt's last; others by their predecessor.
    predictors = torch.arange(prompt, total) - 1
    predictors[offset == 0] = prompt - 1
    return PackedGroup(
        ids[None],
        positions[None],
        allowed[None, None],
        predictors,
        ids[prompt:total],
        rollout,
        offset,
    )


def token_log_probs(
    model: Policy,
    group: PackedGroup,
    temperature: float,
    *,
    chunk: int = 128,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability and entropy (nats) of each completion token, both fp32 [N].

    Logits are divided by the sampling temperature, as they were when the tokens were drawn. They
    are made in chunks of `chunk` positions and made again in backward: memory does not grow with
    N * V.
    """
    device = model.device
    # Additive mask: unlike a bool mask it also serves padding rows that may attend to themselves.
    mask = torch.zeros(group.allowed.shape, dtype=model.dtype, device=device)
    mask.masked_fill_(~group.allowed.to(device), torch.finfo(model.dtype).min)
    decoder, head = decoder_and_head(model)
    hidden = decoder(
        input_ids=group.input_ids.to(device),
        attention_mask=mask,
        position_ids=group.position_ids.to(device),
        use_cache=False,
    ).last_hidden_state[0, group.predictors.to(device)]  # [N, H]
    targets = group.targets.to(device)
    parts = [
        checkpoint(
            _chunk_log_probs,
            head,
            hidden[i : i + chunk],
            targets[i : i + chunk],
            temperature,
            use_reentrant=False,
        )
        for i in range(0, len(targets), chunk)
    ]
    log_probs, entropies = zip(*parts, strict=True)
    return torch.cat(log_probs), torch.cat(entropies)


def _chunk_log_probs(
    head: nn.Module, hidden: torch.Tensor, targets: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = head(hidden).float() / temperature  # [n, V]
    log_probs = logits.log_softmax(-1)
    entropy = -(log_probs.detach().exp() * log_probs.detach()).sum(-1)  # [n], a metric only
    return log_probs.gather(-1, targets[:, None])[:, 0], entropy


def decoder_and_head(model: Policy) -> tuple[nn.Module, nn.Module]:
    """The decoder without its head, and the head, of a causal language model or a PEFT model."""
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    return base.get_decoder(), base.get_output_embeddings()


def unpack(values: torch.Tensor, group: PackedGroup, rollouts: int, width: int) -> torch.Tensor:
    """[N] values of a packed group as [G, R], zero where a completion has ended."""
    rows = values.new_zeros(rollouts, width)
    return rows.index_put((group.rollout.to(values.device), group.offset.to(values.device)), values)
