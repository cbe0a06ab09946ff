"""Small policies, groups of random tokens, and the plain way to score them."""

from collections.abc import Sequence

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from memrerank.memory.extractor import LoraSettings, add_adapter
from memrerank.schema import Rollout, RolloutGroup, TrainingCase
from memrerank.seeding import numpy_generator


def small_policy(base: PreTrainedModel, seed: int = 0) -> PeftModel:
    """An adapter that already changes the outputs: B is random instead of zero."""
    base.requires_grad_(False)
    modules = ["q_proj", "k_proj", "v_proj", "o_proj"]
    policy = add_adapter(base, LoraSettings(4, 8, 0.0, modules), seed)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in policy.named_parameters():
        if "lora_B" in name:
            weight.data = 0.1 * torch.randn(weight.shape, generator=generator)
    return policy


def random_group(
    prompt: int, lengths: Sequence[int], seed: int = 0, case: TrainingCase | None = None
) -> RolloutGroup:
    """A prompt of `prompt` random tokens, and completions of these lengths."""
    draw = numpy_generator(seed, "group")
    rollouts = tuple(
        Rollout(tuple(draw.integers(2, 380, n).tolist()), (0.0,) * n, "", truncated=True)
        for n in lengths
    )
    return RolloutGroup(tuple(draw.integers(2, 380, prompt).tolist()), rollouts, case)


def plain_log_probs(
    model: torch.nn.Module, group: RolloutGroup, temperature: float = 1.0
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Log-probabilities and entropies [tokens] of each completion, one sequence a pass."""
    scored = []
    for rollout in group.rollouts:
        sequence = torch.tensor([[*group.prompt_ids, *rollout.token_ids]])
        logits = model(sequence).logits[0, len(group.prompt_ids) - 1 : -1] / temperature
        log_probs = logits.log_softmax(-1)
        chosen = log_probs.gather(-1, torch.tensor(rollout.token_ids)[:, None])[:, 0]
        scored.append((chosen, -(log_probs.exp() * log_probs).sum(-1).detach()))
    return scored


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A copy of all gradients, which are cleared."""
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found
