"""Schemas of what is read and retrieved: category, target, data, instances, retrieval."""

from dataclasses import dataclass, field
from enum import StrEnum

from omegaconf import II, MISSING

from memrerank.config.prices import PriceConfig
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


class CorpusKind(StrEnum):
    """Which products are searched."""

    c4_1m = "c4_1m"  # Amazon-C4's item pool
    category = "category"  # all products of the category
    all = "all"  # all products of the store


@dataclass
class CorpusConfig:
    """`corpus`: which products are searched; every positive is among them in any case."""

    name: CorpusKind = MISSING


class Rewrite(StrEnum):
    """Where the query texts come from."""

    none = "none"  # as the data set has them
    llm = "llm"  # rewritten by `rewriter`
    file = "file"  # from `data.rewrites`


class DataLayout(StrEnum):
    """How a store's files are laid out (docs/data.md)."""

    demo = "demo"  # written by the project itself, in Amazon's layout
    amazon = "amazon"
    authors = "authors"
    table = "table"


@dataclass
class DataConfig:
    """`data`: the store that queries, purchases and products are read from."""

    name: str = MISSING
    layout: DataLayout = DataLayout.amazon
    root: str = MISSING
    max_history: int = MISSING  # newest purchases kept, of each of within and cross
    max_words: int = MISSING  # words per product, title and description together
    split_seed: int = MISSING  # the benchmark's own seed: runs with other seeds share the splits
    rewrite: Rewrite = Rewrite.none
    rewrites: str | None = None  # file: JSON Lines of query_id and text
    memory_limit: str = "4GB"  # of DuckDB; beyond it, it spills
    spill_dir: str = MISSING
    threads: int | None = None  # of DuckDB; null: one per core


@dataclass
class HubDataConfig(DataConfig):
    """`data=amazon2023`, `data=authors`: files that may be fetched from the Hugging Face hub."""

    download: bool = True  # fetch what is missing under root; false: say what is missing


@dataclass
class TableDataConfig(DataConfig):
    """`data=table`: three tables of one's own (docs/data.md)."""

    layout: DataLayout = DataLayout.table
    purchases: str = MISSING  # files under root; Parquet, CSV or JSON Lines
    products: str = MISSING
    queries: str = MISSING
    max_faults: int = 20  # rows shown of those that break a rule; all are counted


@dataclass
class DemoDataConfig(DataConfig):
    """`data=demo`: the store is written by the project itself."""

    layout: DataLayout = DataLayout.demo
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
    cache_dir: str | None = II("cache_dir")  # where the index is kept; null: in memory alone


class EmbeddingEngine(StrEnum):
    """What runs the embedding of a corpus."""

    local = "local"  # processes of this machine
    ray = "ray"  # Ray Data: the machines of a cluster, or this one


class EncoderDtype(StrEnum):
    """Number formats that encoders run in."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


class VectorDtype(StrEnum):
    """Number formats that product vectors are kept in."""

    float32 = "float32"
    float16 = "float16"


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
    dtype: EncoderDtype = EncoderDtype.float32  # of the weights
    end_token: str | None = None  # that texts end with; null: as the tokenizer has it


@dataclass
class DenseConfig(RetrieverConfig):
    """Dense retrieval: exact inner product over normalised vectors."""

    _target_: str = "memrerank.retrieval.dense.DenseRetriever"
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    vector_dtype: VectorDtype = VectorDtype.float16  # of the vectors on disk
    cache_dir: str | None = II("cache_dir")  # where they are kept; null: in memory alone
    engine: EmbeddingEngine = II("retrieval.engine")  # noqa: RUF009  # a string, in truth
    workers: int = II("retrieval.workers")
    shard_rows: int = II("retrieval.shard_rows")
    block_mb: int = II("retrieval.block_mb")


@dataclass
class RetrievalConfig:
    """What is common to all retrievers."""

    pool_size: int = MISSING
    train: list[str] = MISSING  # names in `retrievers`
    allow_held_out: bool = False
    engine: EmbeddingEngine = EmbeddingEngine.local
    workers: int = 1  # processes that embed, each on a device of its own where there are several
    shard_rows: int = MISSING  # products per shard: the unit of embedding and of resuming
    block_mb: int = MISSING  # megabytes of product vectors that a search holds at once


@dataclass
class RewriterConfig:
    """`rewriter`: the language model that rewrites queries under `data.rewrite=llm`."""

    model: str = MISSING
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    reasoning_effort: str | None = None  # null: not sent
    temperature: float | None = None
    max_completion_tokens: int = MISSING
    max_concurrency: int = MISSING
    timeout: float = MISSING  # seconds per request
    max_retries: int = MISSING
    max_failure_rate: float = MISSING
    price: PriceConfig = field(default_factory=PriceConfig)  # input null: from `prices`, if there
    cache: str = MISSING  # SQLite file of the answers


@dataclass
class ReportConfig:
    """What `prepare.py` reports on."""

    retrievers: list[str] = MISSING  # names in `retrievers`; recall and instances are told of each
    min_queries: int = MISSING  # categories with fewer are left out of the history figure
