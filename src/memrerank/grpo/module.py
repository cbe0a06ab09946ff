"""GRPO over grouped memories, as a thin LightningModule.

One training batch is B cases (a shopper's history and one setwise instance). For each, G memories
are sampled, the reward callback scores them, rewards become group-relative advantages, and the
policy takes `inner_epochs` optimizer steps on them.

Departures from textbook GRPO (arXiv 2402.03300), each a setting:
- `beta` defaults to 0: no reference pass. The adapter switched off is the reference otherwise.
- with one inner epoch the ratio is 1 at every token and clipping cannot act; the old
  log-probabilities are those of the first pass over the batch, by the same code and in the same
  precision, so that rounding between sampler and loss does not look like a policy change.
- sigma has a floor (`sigma_floor`): rewards that differ by judge noise alone get small advantages.
- a failed reward is NaN and leaves its group; a group without differences leaves the loss.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from peft import PeftModel

from memrerank.errors import ConfigError, JudgeError
from memrerank.grpo.advantages import Advantages, Scale, group_advantages
from memrerank.grpo.dev import DevEvaluator
from memrerank.grpo.loss import LossSettings
from memrerank.grpo.policy import ScoredGroup, accumulate_gradients, score_group
from memrerank.memory.language_model import LanguageModelMemory
from memrerank.memory.prompting import MemoryPrompt
from memrerank.memory.sampling import TransformersRolloutEngine
from memrerank.schema import Query, RewardCallback, Rewards, RolloutGroup, TrainingCase
from memrerank.seeding import derive_seed


@dataclass(frozen=True)
class GRPOSettings:
    """The constants of training; see `conf/train.yaml` for units and sources.

    Raises:
        ConfigError: nothing could be learned with them.
    """

    rollouts: int
    inner_epochs: int
    scale: Scale
    sigma_floor: float
    learning_rate: float
    warmup_steps: int
    weight_decay: float
    max_grad_norm: float
    max_failure_rate: float
    loss: LossSettings

    def __post_init__(self) -> None:
        if self.rollouts < 2:
            raise ConfigError(
                f"grpo.rollouts={self.rollouts}: a memory is judged against the others of its "
                "group; use at least 2 (paper: 8)"
            )
        if self.inner_epochs < 1:
            raise ConfigError(f"grpo.inner_epochs={self.inner_epochs}: use at least 1")


class GRPOModule(pl.LightningModule):
    """Trains the extractor's adapter on the reward callback's feedback.

    Raises:
        ConfigError: the engine decodes greedily, so that all memories of a group are the same.
    """

    def __init__(
        self,
        policy: PeftModel,
        engine: TransformersRolloutEngine,
        prompt: MemoryPrompt,
        reward: RewardCallback,
        dev: DevEvaluator,
        settings: GRPOSettings,
        seed: int,
    ) -> None:
        super().__init__()
        if engine.sampling.temperature == 0:
            raise ConfigError(
                "extractor.sampling.temperature=0 writes the same memory in every rollout; "
                "training needs a temperature above 0 (paper: 1.0)"
            )
        self.automatic_optimization = False
        self.strict_loading = False  # checkpoints hold the adapter alone
        self.policy = policy
        self.engine = engine
        self.prompt = prompt
        self.reward = reward
        self.dev = dev
        self.dev_memory = LanguageModelMemory(engine, prompt, seed)
        self._dev_groups: dict[str, RolloutGroup] = {}
        self.settings = settings
        self.seed = seed

    def configure_optimizers(self) -> Any:
        """AdamW over the adapter, with linear warm-up to a constant rate."""
        optimizer = torch.optim.AdamW(
            [p for p in self.policy.parameters() if p.requires_grad],
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
        )
        warmup = max(self.settings.warmup_steps, 1)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / warmup)
        )
        return {"optimizer": optimizer, "lr_scheduler": scheduler}

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        """As it is: batches hold words, not tensors."""
        return batch

    def training_step(self, batch: list[TrainingCase], batch_idx: int) -> dict[str, Any]:
        """Samples, scores and learns from one batch; returns groups and rewards for callbacks."""
        started = time.perf_counter()
        groups = self.sample(batch)
        sampled = time.perf_counter()
        rewards = self.reward(groups)
        rewarded = time.perf_counter()
        self._check_failures(rewards)
        advantages = group_advantages(
            torch.from_numpy(rewards.total),
            scale=self.settings.scale,
            sigma_floor=self.settings.sigma_floor,
        )
        metrics = self._learn(groups, advantages)
        metrics |= reward_metrics(rewards, advantages) | length_metrics(groups)
        metrics |= {
            "seconds/rollout": sampled - started,
            "seconds/reward": rewarded - sampled,
            "seconds/loss": time.perf_counter() - rewarded,
        }
        shown = {"reward", "entropy"}
        self.log_dict({k: v for k, v in metrics.items() if k not in shown}, batch_size=len(batch))
        self.log_dict({k: metrics[k] for k in shown}, prog_bar=True, batch_size=len(batch))
        return {"groups": groups, "rewards": rewards}

    def sample(self, cases: Sequence[TrainingCase]) -> list[RolloutGroup]:
        """G memories per case. A draw depends on the seed, the step and the instance alone."""
        groups = self.engine.generate(
            [self.prompt.token_ids(case.history, self.engine.tokenizer) for case in cases],
            self.settings.rollouts,
            [derive_seed(self.seed, self.global_step, case.instance.id) for case in cases],
        )
        return [replace(group, case=case) for group, case in zip(groups, cases, strict=True)]

    def validation_step(self, batch: Sequence[Query], batch_idx: int) -> None:
        """Writes the memories of a batch of dev queries."""
        groups = self.dev_memory.sample([self.dev.histories[query.id] for query in batch])
        self._dev_groups |= {query.id: group for query, group in zip(batch, groups, strict=True)}

    def on_validation_epoch_end(self) -> None:
        """Ranks the dev queries with those memories."""
        self.log_dict(self.dev.score(self._dev_groups))
        self._dev_groups.clear()

    def _learn(self, groups: Sequence[RolloutGroup], advantages: Advantages) -> dict[str, float]:
        """The optimizer steps of one batch."""
        optimizer, scheduler = self.optimizers(), self.lr_schedulers()
        temperature = self.engine.sampling.temperature
        scored = [
            score_group(
                self.policy,
                group,
                row,
                pad_id=self.engine.tokenizer.pad_token_id,
                multiple=self.engine.pad_multiple,
                temperature=temperature,
                with_reference=self.settings.loss.beta > 0,
            )
            for group, row in zip(groups, advantages.values, strict=True)
        ]
        metrics: dict[str, float] = {}
        for _ in range(self.settings.inner_epochs):
            optimizer.zero_grad()  # type: ignore[union-attr]
            statistics, log_probs = accumulate_gradients(
                self.policy, scored, self.settings.loss, temperature, self.manual_backward
            )
            scored = [_with_old(group, old) for group, old in zip(scored, log_probs, strict=True)]
            norm = torch.nn.utils.clip_grad_norm_(
                [p for p in self.policy.parameters() if p.grad is not None],
                self.settings.max_grad_norm,
            )
            optimizer.step()  # type: ignore[union-attr]
            scheduler.step()  # type: ignore[union-attr]
            metrics = statistics.means() | {"grad_norm": float(norm)}
        return metrics

    def _check_failures(self, rewards: Rewards) -> None:
        """Raises JudgeError when more rewards failed than the setting allows."""
        rate = float(np.isnan(rewards.total).mean())
        if rate > self.settings.max_failure_rate:
            raise JudgeError(
                f"{rate:.0%} of the rewards of step {self.global_step} could not be had, more than "
                f"grpo.max_failure_rate={self.settings.max_failure_rate}. Check the reranker; the "
                "last checkpoint is kept and `ckpt_path` resumes from it"
            )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keeps the adapter only: megabytes instead of the whole model."""
        trainable = {name for name, p in self.named_parameters() if p.requires_grad}
        state = checkpoint["state_dict"]
        checkpoint["state_dict"] = {k: v for k, v in state.items() if k in trainable}


def _with_old(group: ScoredGroup, log_probs: torch.Tensor) -> ScoredGroup:
    return group if group.old is not None else replace(group, old=log_probs)


def reward_metrics(rewards: Rewards, advantages: Advantages) -> dict[str, float]:
    """Means over valid rewards, by component, and how many groups teach nothing."""
    metrics = {"reward": _mean(rewards.total)}
    metrics |= {f"reward/{name}": _mean(values) for name, values in rewards.components.items()}
    valid = ~np.isnan(rewards.total)
    sums = np.where(valid, rewards.total, 0.0).sum(axis=-1, keepdims=True)
    centred = rewards.total - sums / valid.sum(axis=-1, keepdims=True).clip(min=1)
    return metrics | {
        "reward/group_std": float(np.sqrt(_mean(centred**2))),
        "flat_groups": advantages.flat.float().mean().item(),
        "failed_rewards": advantages.failed.float().mean().item(),
    }


def length_metrics(groups: Sequence[RolloutGroup]) -> dict[str, float]:
    """Completion lengths in tokens, and the share that the cap cut off."""
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    lengths = [len(rollout.token_ids) for rollout in rollouts]
    return {
        "completion/mean_tokens": float(np.mean(lengths)),
        "completion/max_tokens": float(max(lengths)),
        "completion/truncated": float(np.mean([rollout.truncated for rollout in rollouts])),
    }


def _mean(values: np.ndarray) -> float:
    valid = values[~np.isnan(values)]
    return float(valid.mean()) if valid.size else float("nan")
