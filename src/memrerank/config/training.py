"""Schemas of optimisation, checkpoint choice, tracking and evaluation."""

from dataclasses import dataclass

from omegaconf import MISSING

from memrerank.grpo.advantages import Scale
from memrerank.grpo.loss import LossType
from memrerank.schema import Split


@dataclass
class GRPOConfig:
    """The optimisation."""

    rollouts: int = MISSING  # G, completions per prompt
    prompts_per_step: int = MISSING  # B, groups per optimizer step
    loss: LossType = LossType.grpo
    clip_low: float = MISSING
    clip_high: float = MISSING
    beta: float = MISSING
    inner_epochs: int = MISSING  # optimizer steps per batch of rollouts
    scale: Scale = Scale.group
    sigma_floor: float = MISSING
    learning_rate: float = MISSING
    warmup_steps: int = MISSING
    weight_decay: float = MISSING
    max_grad_norm: float = MISSING
    max_failure_rate: float = MISSING  # share of failed rewards in a step that stops the run
    gradient_checkpointing: bool = False
    epochs: int = MISSING  # passes over the training instances, unless max_steps ends it before


@dataclass
class DevConfig:
    """Checkpoint choice: full ranking of dev queries."""

    queries: int | None = MISSING  # at most so many; null: all
    every_steps: int = MISSING


@dataclass
class TrainerConfig:
    """`trainer`: arguments of lightning.Trainer."""

    _target_: str = "lightning.pytorch.Trainer"
    max_steps: int = MISSING
    accelerator: str = MISSING
    devices: int = MISSING
    precision: str = "32-true"  # the extractor's own dtype decides
    log_every_n_steps: int = 1
    enable_progress_bar: bool = True
    enable_model_summary: bool = False
    num_sanity_val_steps: int = 0


@dataclass
class CheckpointConfig:
    """What a run leaves behind while it runs."""

    every_steps: int = MISSING
    memory_samples_every: int = MISSING  # steps between tables of sampled memories


@dataclass
class TrackingConfig:
    """`tracking`: MLflow."""

    uri: str = MISSING
    experiment: str = MISSING


@dataclass
class EvalConfig:
    """One evaluation."""

    split: Split = Split.test
    max_queries: int | None = None
    stop_at_positive: bool = False  # a query's ranking ends once its positive is placed
