"""Sampling memories in process: one prefill per prompt, then batched decoding.

The engine stays in token ids: what it returns is what the loss scores, with no decode and
re-encode between. The log-probabilities are those of the distribution that was sampled from
(temperature applied; with `top_p` < 1 the mass outside the nucleus removed).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from peft import PeftModel
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from memrerank.errors import ConfigError
from memrerank.schema import Rollout, RolloutGroup
from memrerank.seeding import torch_generator

Policy = PreTrainedModel | PeftModel


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn.

    Raises:
        ConfigError: a setting is outside its range.
    """

    max_new_tokens: int
    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1 or self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ConfigError(
                f"extractor.sampling={asdict(self)} will not do: max_new_tokens is at least 1, "
                "temperature at least 0 (greedy), top_p above 0 and at most 1"
            )


def round_up(length: int, multiple: int) -> int:
    """The next multiple: CPU and GPU kernels are prepared per shape, so few lengths are used."""
    return -(-length // multiple) * multiple


def left_pad(
    prompts: Sequence[Sequence[int]], pad_id: int, multiple: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, each [B, P], padded on the left to a common multiple."""
    width = round_up(max(len(prompt) for prompt in prompts), multiple)
    ids = torch.full((len(prompts), width), pad_id)
    mask = torch.zeros((len(prompts), width), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    return ids, mask


def draw(
    logits: torch.Tensor, uniform: torch.Tensor, sampling: Sampling
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token a row by inverse transform, and its log-probability, each [N].

    One uniform number per row decides, so that a row's tokens do not depend on its batch.

    Args:
        logits: [N, V], any float type.
        uniform: [N], in [0, 1).
    """
    logits = logits.float()
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)  # [N]
        log_probs = logits.log_softmax(-1)
    else:
        log_probs = (logits / sampling.temperature).log_softmax(-1)  # [N, V]
        if sampling.top_p < 1:
            log_probs = nucleus(log_probs, sampling.top_p)
        cumulative = log_probs.exp().cumsum(-1)  # [N, V]
        threshold = uniform[:, None].to(cumulative) * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
        tokens = tokens.clamp(max=logits.shape[-1] - 1)
    return tokens, log_probs.gather(-1, tokens[:, None])[:, 0]


def nucleus(log_probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """Renormalised log-probabilities of the smallest set of tokens with mass `top_p`: [N, V]."""
    ordered, order = log_probs.sort(-1, descending=True)
    mass_before = ordered.exp().cumsum(-1) - ordered.exp()
    ordered = ordered.masked_fill(mass_before >= top_p, float("-inf"))
    kept = torch.empty_like(log_probs).scatter(-1, order, ordered)
    return kept.log_softmax(-1)


class TransformersRolloutEngine:
    """Samples from a transformers causal language model (`rollout` in process).

    Args:
        model: the policy; put into eval mode while sampling, and back afterwards.
        tokenizer: only for decoding to text and for the pad id.
        answer_prefix: the end of the prompt that belongs to the answer; put before each text.
        pad_multiple: prompts are padded to a multiple of this many tokens.
    """

    def __init__(
        self,
        model: Policy,
        tokenizer: PreTrainedTokenizerBase,
        sampling: Sampling,
        answer_prefix: str = "",
        pad_multiple: int = 64,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.sampling = sampling
        self.answer_prefix = answer_prefix
        self.pad_multiple = pad_multiple
        self.end_ids = end_token_ids(model, tokenizer)

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Sequence[int]], rollouts: int, seeds: Sequence[int]
    ) -> list[RolloutGroup]:
        """G = `rollouts` completions for each of B prompts; `seeds[b]` fixes those of prompt b."""
        was_training = self.model.training
        self.model.eval()
        try:
            tokens, log_probs = self._decode(prompts, rollouts, seeds)  # [B*G, R] each
        finally:
            self.model.train(was_training)
        rows = [
            self._rollout(row_tokens, row_log_probs)
            for row_tokens, row_log_probs in zip(tokens.tolist(), log_probs.tolist(), strict=True)
        ]
        return [
            RolloutGroup(tuple(prompt), tuple(rows[b * rollouts : (b + 1) * rollouts]))
            for b, prompt in enumerate(prompts)
        ]

    def _decode(
        self, prompts: Sequence[Sequence[int]], rollouts: int, seeds: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        device = self.model.device
        ids, mask = left_pad(prompts, self.tokenizer.pad_token_id or 0, self.pad_multiple)
        ids, mask = ids.to(device), mask.to(device)  # [B, P]
        cache = DynamicCache(config=self.model.config)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        logits = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]  # [B, V]
        # The prompt is read once; its keys and values serve all G rollouts.
        cache.batch_repeat_interleave(rollouts)
        logits = logits.repeat_interleave(rollouts, 0)  # [B*G, V]
        mask = mask.repeat_interleave(rollouts, 0)  # [B*G, P]
        position = positions[:, -1:].repeat_interleave(rollouts, 0) + 1  # [B*G, 1]
        uniform = self._uniform_numbers(rollouts, seeds).to(device)  # [R, B*G]

        finished = torch.zeros(len(logits), dtype=torch.bool, device=device)
        end = torch.tensor(self.end_ids, device=device)
        steps: list[tuple[torch.Tensor, torch.Tensor]] = []
        for step in range(self.sampling.max_new_tokens):
            token, log_prob = draw(logits, uniform[step], self.sampling)  # [B*G]
            token = token.masked_fill(finished, -1)
            steps.append((token, log_prob))
            finished = finished | torch.isin(token, end)
            if bool(finished.all()) or step + 1 == self.sampling.max_new_tokens:
                break
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=-1)
            logits = self.model(
                input_ids=token.clamp(min=0)[:, None],
                attention_mask=mask,
                position_ids=position,
                cache=cache,
                use_cache=True,
            ).logits[:, -1]
            position = position + 1
        tokens, log_probs = zip(*steps, strict=True)
        return torch.stack(tokens, 1).cpu(), torch.stack(log_probs, 1).float().cpu()

    def _uniform_numbers(self, rollouts: int, seeds: Sequence[int]) -> torch.Tensor:
        """[R, B*G] numbers in [0, 1); a prompt's columns come from its own generator."""
        columns = [
            torch.rand(
                self.sampling.max_new_tokens,
                rollouts,
                generator=torch_generator(seed, "rollout"),
                dtype=torch.float64,
            )
            for seed in seeds
        ]
        # Below 1 also in fp32, where rounding up would point past the last token.
        return torch.cat(columns, 1).float().clamp(max=1 - 2**-24)

    def _rollout(self, tokens: list[int], log_probs: list[float]) -> Rollout:
        """Cuts a row after its end token; -1 marks places after the end."""
        length = tokens.index(-1) if -1 in tokens else len(tokens)
        kept = tokens[:length]
        ended = bool(kept) and kept[-1] in self.end_ids
        text = str(self.tokenizer.decode(kept[:-1] if ended else kept, skip_special_tokens=True))
        return Rollout(
            tuple(kept), tuple(log_probs[:length]), self.answer_prefix + text, truncated=not ended
        )


def end_token_ids(model: Policy, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends a completion: the tokenizer's, the config's, the generation config's."""
    found: set[int] = set()
    for value in (
        tokenizer.eos_token_id,
        getattr(model.config, "eos_token_id", None),
        getattr(model.generation_config, "eos_token_id", None),
    ):
        if value is not None:
            found |= {value} if isinstance(value, int) else set(value)
    return tuple(sorted(found))
