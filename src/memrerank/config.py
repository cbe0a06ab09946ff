"""The configuration's schemas: one dataclass per config group.

`register()` puts them into Hydra's ConfigStore under `schema/...`; each YAML file in `conf/`
starts from its schema, so a typo, a wrong type or an unknown key fails while the configuration is
composed. `_target_` lives here, constructor arguments are the fields.

Every field has its unit and the source of its default in `conf/`.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from memrerank.categories import CATEGORIES
from memrerank.grpo.advantages import Scale
from memrerank.grpo.loss import LossType
from memrerank.schema import Split, Target


@dataclass
class CategoryConfig:
    """`category`: which of Amazon-Reviews-2023's categories the queries are from."""

    name: str = MISSING  # file name, "Beauty_and_Personal_Care"
    label: str = MISSING  # as chosen on the command line, "beauty"


@dataclass
class TargetConfig:
    """`target`: which preferences the memory holds."""

    name: Target = MISSING


# ---------------------------------------------------------------- data


@dataclass
class DataConfig:
    """`data`: the raw store, in the layout of Amazon-Reviews-2023 and Amazon-C4."""

    name: str = MISSING
    root: str = MISSING
    max_history: int = MISSING  # newest purchases kept, of each of within and cross
    max_words: int = MISSING  # words per product, title and description together
    split_seed: int = MISSING  # the benchmark's own seed: runs with other seeds share the splits


@dataclass
class DemoDataConfig(DataConfig):
    """`data=demo`: the store is written by the project itself."""

    shoppers: int = MISSING
    products: int = MISSING
    queries_per_category: int = MISSING
    store_seed: int = MISSING


@dataclass
class InstancesConfig:
    """Setwise instances per eligible pair."""

    train: int = MISSING
    dev: int = MISSING


# ---------------------------------------------------------------- retrieval


@dataclass
class RetrieverConfig:
    """`retriever`: what fills the pools."""

    name: str = MISSING
    held_out: bool = False  # may be evaluated, never trained on


@dataclass
class BM25Config(RetrieverConfig):
    """Sparse retrieval with bm25s."""

    _target_: str = "memrerank.retrieval.bm25.BM25Retriever"
    k1: float = MISSING
    b: float = MISSING
    stemmer: str = MISSING
    stopwords: str = MISSING


@dataclass
class EncoderConfig:
    """A sentence encoder and its documented recipe."""

    _target_: str = "memrerank.retrieval.encoder.SentenceEncoder"
    model: str = MISSING
    pooling: str = MISSING  # cls | mean | lasttoken
    max_length: int = MISSING  # tokens
    query_template: str = "{text}"
    batch_size: int = 64
    padding_side: str = "right"
    device: str = "auto"


@dataclass
class DenseConfig(RetrieverConfig):
    """Dense retrieval: exact inner product over normalised vectors."""

    _target_: str = "memrerank.retrieval.dense.DenseRetriever"
    encoder: EncoderConfig = field(default_factory=EncoderConfig)


@dataclass
class RetrievalConfig:
    """What is common to all retrievers."""

    pool_size: int = MISSING
    train: list[str] = MISSING  # names in `retrievers`
    allow_held_out: bool = False


# ---------------------------------------------------------------- memory


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


# ---------------------------------------------------------------- reranking


@dataclass
class RerankerConfig:
    """`reranker`: the setwise judge."""

    _target_: str = MISSING
    name: str = MISSING


@dataclass
class EmbeddingRerankerConfig(RerankerConfig):
    """A judge made of a sentence encoder."""

    _target_: str = "memrerank.rerank.embedding.EmbeddingReranker"
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    memory_weight: float = MISSING
    temperature: float = MISSING


@dataclass
class OpenAIRerankerConfig(RerankerConfig):
    """Any OpenAI-compatible endpoint."""

    _target_: str = "memrerank.rerank.openai.OpenAIReranker"
    model: str = MISSING
    base_url: str | None = None
    api_key_env: str = MISSING
    reasoning_effort: str | None = None
    temperature: float | None = None  # null: not sent
    top_p: float | None = None
    max_completion_tokens: int = MISSING
    max_concurrency: int = MISSING
    timeout: float = MISSING  # seconds
    max_retries: int = MISSING
    max_failure_rate: float = MISSING
    prices: dict[str, float] | None = None  # US dollars per million tokens


@dataclass
class JudgeCacheConfig:
    """The recording of the judge's answers."""

    mode: str = "off"  # off | readwrite | readonly | refresh
    path: str = MISSING


@dataclass
class RankingConfig:
    """`ranking`: how choices become an order."""

    _target_: str = "memrerank.rerank.algorithms.knockout"
    _partial_: bool = True
    top_k: int = MISSING
    set_size: int = MISSING


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
    utility: str = MISSING  # sampled | expected
    quality_weight: float = MISSING
    quality: QualityConfig = field(default_factory=QualityConfig)


# ---------------------------------------------------------------- training


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


@dataclass
class Config:
    """The root of `conf/train.yaml` and `conf/evaluate.yaml`.

    Both know every group, so that one `experiment` serves both and an evaluation's record holds
    the training settings that it was run beside.
    """

    seed: int = MISSING
    cache_dir: str = MISSING
    category: CategoryConfig = field(default_factory=CategoryConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    data: DataConfig = field(default_factory=DataConfig)
    instances: InstancesConfig = field(default_factory=InstancesConfig)
    retriever: RetrieverConfig = field(default_factory=RetrieverConfig)
    retrievers: dict[str, Any] = field(default_factory=dict)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    extractor: ExtractorConfig = field(default_factory=ExtractorConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)
    judge_cache: JudgeCacheConfig = field(default_factory=JudgeCacheConfig)
    ranking: RankingConfig = field(default_factory=RankingConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    grpo: GRPOConfig = field(default_factory=GRPOConfig)
    dev: DevConfig = field(default_factory=DevConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    ckpt_path: str | None = None  # train: a checkpoint to resume from, or "last"


SCHEMAS: dict[str, type] = {
    "root": Config,
    "data/raw": DataConfig,
    "data/demo": DemoDataConfig,
    "retriever/bm25": BM25Config,
    "retriever/dense": DenseConfig,
    "extractor": ExtractorConfig,
    "baseline/plain": BaselineConfig,
    "baseline/trained": TrainedBaselineConfig,
    "reranker/embedding": EmbeddingRerankerConfig,
    "reranker/openai": OpenAIRerankerConfig,
    "ranking": RankingConfig,
    "reward": RewardConfig,
    "trainer": TrainerConfig,
    "tracking": TrackingConfig,
}


def register() -> None:
    """Registers the schemas, and the groups that are lists of names: `category`, `target`."""
    store = ConfigStore.instance()
    for path, schema in SCHEMAS.items():
        group, _, name = f"schema/{path}".rpartition("/")
        store.store(group=group, name=name, node=schema)
    for label, name in CATEGORIES.items():
        store.store(group="category", name=label, node=CategoryConfig(name=name, label=label))
    for target in Target:
        store.store(group="target", name=target.value, node=TargetConfig(name=target))
