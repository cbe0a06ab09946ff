"""Schemas of what is read and retrieved: category, target, data, instances, retrieval."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from memrerank.schema import Target


@dataclass
class CategoryConfig:
    """`category`: which of Amazon-Reviews-2023's categories the queries are from."""

    name: str = MISSING  # file name, "Beauty_and_Personal_Care"
    label: str = MISSING  # as chosen on the command line, "beauty"


@dataclass
class TargetConfig:
    """`target`: which preferences the memory holds."""

    name: Target = MISSING


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
