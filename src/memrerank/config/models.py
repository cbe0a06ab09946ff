"""Schemas of what writes memories and what rewards them."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from memrerank.reward.setwise import Utility


@dataclass
class PromptConfig:
    """How a history becomes an extractor prompt."""

    style: str = MISSING
    max_purchases: int = MISSING
    max_product_words: int = MISSING
    max_memory_words: int = MISSING
    answer_prefix: str = MISSING


@dataclass
class LoraConfig:
    """The adapter."""

    r: int = MISSING
    alpha: int = MISSING
    dropout: float = MISSING
    target_modules: list[str] = MISSING


@dataclass
class SamplingConfig:
    """How completions are drawn, in training and in evaluation."""

    max_new_tokens: int = MISSING
    temperature: float = MISSING
    top_p: float = MISSING


@dataclass
class ExtractorConfig:
    """`extractor`: the model that writes memories."""

    model: str = MISSING
    dtype: str = MISSING
    pad_multiple: int = MISSING  # tokens; prompts are padded to multiples of it
    batch_size: int = MISSING  # memories written at once outside training
    lora: LoraConfig = field(default_factory=LoraConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)


@dataclass
class BaselineConfig:
    """`baseline`: where the memories come from."""

    _target_: str = MISSING  # called with the evaluation's context, returns a MemorySource
    name: str = MISSING


@dataclass
class TrainedBaselineConfig(BaselineConfig):
    """`baseline=memrerank`: the trained extractor."""

    adapter: str | None = None  # an adapter folder; null: the newest matching training run
    run_id: str | None = None  # an MLflow training run


@dataclass
class QualityConfig:
    """Weights of the memory-quality term."""

    _target_: str = "memrerank.memory.quality.QualitySettings"
    within: float = MISSING
    format: float = MISSING
    repetition: float = MISSING
    length: float = MISSING
    placeholder: float = MISSING
    evidence: float = MISSING
    max_words: int = MISSING


@dataclass
class RewardConfig:
    """`reward`: the callback that scores rollouts."""

    _target_: str = "memrerank.reward.setwise.SetwiseReward"
    samples: int = MISSING
    utility: Utility = MISSING
    quality_weight: float = MISSING
    quality: QualityConfig = field(default_factory=QualityConfig)
