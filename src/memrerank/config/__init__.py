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
from memrerank.config.data import (
    BM25Config,
    CategoryConfig,
    CorpusConfig,
    CorpusKind,
    DataConfig,
    DemoDataConfig,
    DenseConfig,
    HubDataConfig,
    InstancesConfig,
    ReportConfig,
    RetrievalConfig,
    RetrieverConfig,
    RewriterConfig,
    TableDataConfig,
    TargetConfig,
)
from memrerank.config.judges import (
    CrossEncoderRerankerConfig,
    EmbeddingRerankerConfig,
    JudgeCacheConfig,
    JudgingConfig,
    LocalRerankerConfig,
    OpenAIRerankerConfig,
    RankingConfig,
    RerankerConfig,
)
from memrerank.config.models import (
    BaselineConfig,
    ExtractorConfig,
    RewardConfig,
    TrainedBaselineConfig,
)
from memrerank.config.prices import PriceConfig
from memrerank.config.training import (
    CheckpointConfig,
    DevConfig,
    EvalConfig,
    GRPOConfig,
    TrackingConfig,
    TrainerConfig,
)
from memrerank.schema import Target


@dataclass
class Config:
    """The root of `conf/train.yaml`, `conf/evaluate.yaml` and `conf/prepare.yaml`.

    All know every group, so that one `experiment` serves all and an evaluation's record holds
    the training settings that it was run beside.
    """

    seed: int = MISSING
    cache_dir: str = MISSING
    category: CategoryConfig = field(default_factory=CategoryConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    data: DataConfig = field(default_factory=DataConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    rewriter: RewriterConfig = field(default_factory=RewriterConfig)
    instances: InstancesConfig = field(default_factory=InstancesConfig)
    retriever: RetrieverConfig = field(default_factory=RetrieverConfig)
    retrievers: dict[str, Any] = field(default_factory=dict)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    extractor: ExtractorConfig = field(default_factory=ExtractorConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)
    judging: JudgingConfig = field(default_factory=JudgingConfig)
    judge_cache: JudgeCacheConfig = field(default_factory=JudgeCacheConfig)
    prices: dict[str, PriceConfig] = field(default_factory=dict)  # by model
    ranking: RankingConfig = field(default_factory=RankingConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    grpo: GRPOConfig = field(default_factory=GRPOConfig)
    dev: DevConfig = field(default_factory=DevConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    report: ReportConfig = field(default_factory=ReportConfig)
    dry_run: bool = False  # tell calls, tokens and cost, and ask no judge
    ckpt_path: str | None = None  # train: a checkpoint to resume from, or "last"


SCHEMAS: dict[str, type] = {
    "root": Config,
    "data/raw": DataConfig,
    "data/hub": HubDataConfig,
    "data/table": TableDataConfig,
    "data/demo": DemoDataConfig,
    "retriever/bm25": BM25Config,
    "retriever/dense": DenseConfig,
    "extractor": ExtractorConfig,
    "baseline/plain": BaselineConfig,
    "baseline/trained": TrainedBaselineConfig,
    "reranker/embedding": EmbeddingRerankerConfig,
    "reranker/cross_encoder": CrossEncoderRerankerConfig,
    "reranker/local": LocalRerankerConfig,
    "reranker/openai": OpenAIRerankerConfig,
    "ranking": RankingConfig,
    "reward": RewardConfig,
    "trainer": TrainerConfig,
    "tracking": TrackingConfig,
}


def register() -> None:
    """Registers the schemas, and the groups that are lists of names."""
    store = ConfigStore.instance()
    for path, schema in SCHEMAS.items():
        group, _, name = f"schema/{path}".rpartition("/")
        store.store(group=group, name=name, node=schema)
    for label, name in CATEGORIES.items():
        store.store(group="category", name=label, node=CategoryConfig(name=name, label=label))
    # A shop of one's own has categories of its own: category=other category.name=Garden
    other = CategoryConfig(name=MISSING, label="${category.name}")
    store.store(group="category", name="other", node=other)
    for target in Target:
        store.store(group="target", name=target.value, node=TargetConfig(name=target))
    for kind in CorpusKind:
        store.store(group="corpus", name=kind.value, node=CorpusConfig(name=kind))
