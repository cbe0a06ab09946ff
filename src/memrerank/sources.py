"""From the `data` group to a benchmark: the source that it names, read, joined and filtered."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from memrerank.building import price_of
from memrerank.config import Config
from memrerank.config.data import DataLayout, Rewrite
from memrerank.data.amazon import amazon_store, authors_store, fetch_missing, find_files
from memrerank.data.benchmark import BenchmarkSettings, Rewriter, build_benchmark
from memrerank.data.demo import DemoSettings, write_demo_store
from memrerank.data.engine import EngineSettings
from memrerank.data.prepared import PreparedData
from memrerank.data.raw import RawStore
from memrerank.data.rewrite import Rewrites, read_rewrites
from memrerank.data.steps import Steps
from memrerank.data.table import TableSettings, table_store
from memrerank.errors import ConfigError
from memrerank.rewriting import rewrite_with_model

log = logging.getLogger(__name__)

STEPS_FOLDER = "data"  # under the cache folder


def make_data(cfg: Config) -> PreparedData:
    """Fetches, reads, joins and filters the data of the chosen category.

    Raises:
        MemrerankError: a file or a setting will not do; the message says which.
    """
    steps = make_steps(cfg)
    raw = make_raw_store(cfg, steps)
    settings = BenchmarkSettings(
        category=cfg.category.name,
        max_history=cfg.data.max_history,
        max_words=cfg.data.max_words,
        split_seed=cfg.data.split_seed,
        source=cfg.data.name,
    )
    benchmark = build_benchmark(steps, raw, settings, make_rewriter(cfg))
    made = sum(step.made for step in steps.done.values())
    log.info("Data: %d steps, of which %d were there", len(steps.done), len(steps.done) - made)
    sizes = ", ".join(f"{len(q)} {split.value}" for split, q in benchmark.queries.items())
    log.info(
        "Benchmark %s: %s queries, %d products", cfg.category.label, sizes, len(benchmark.corpus)
    )
    return PreparedData(benchmark, raw, steps.sources, steps.done)


def make_rewriter(cfg: Config) -> Rewriter | None:
    """What gives the queries new texts under `data.rewrite`; None: nothing does.

    Raises:
        ConfigError: `data.rewrite=file` without a file.
    """
    if cfg.data.rewrite is Rewrite.none:
        return None
    if cfg.data.rewrite is Rewrite.llm:
        price = price_of(cfg.prices, cfg.rewriter)
        return lambda rows: rewrite_with_model(cfg.rewriter, rows, price=price, progress=True)
    if cfg.data.rewrites is None:
        raise ConfigError("data.rewrite=file needs data.rewrites=<file of query_id and text>")
    path = Path(cfg.data.rewrites)
    return lambda rows: Rewrites(
        read_rewrites(path, [row.query_id for row in rows]), {"queries": len(rows)}
    )


def make_steps(cfg: Config) -> Steps:
    """The steps of all data sources, in the cache folder."""
    engine = EngineSettings(cfg.data.memory_limit, Path(cfg.data.spill_dir), cfg.data.threads)
    return Steps(Path(cfg.cache_dir) / STEPS_FOLDER, engine)


def make_raw_store(cfg: Config, steps: Steps) -> RawStore:
    """What the source holds, joined but not filtered."""
    data: Any = cfg.data
    root, category, corpus = Path(data.root), cfg.category.name, cfg.corpus.name.value
    if data.layout is DataLayout.table:
        tables = TableSettings(root, data.purchases, data.products, data.queries, data.max_faults)
        return table_store(steps, tables, corpus, category)
    counts: Mapping[str, int] = {}
    if data.layout is DataLayout.demo:
        root = write_demo(cfg)
    else:
        authors = data.layout is DataLayout.authors
        counts = fetch_missing(root, category, authors=authors, allowed=data.download)
    if data.layout is DataLayout.authors:
        raw = authors_store(steps, root, category, corpus)
    else:
        raw = amazon_store(steps, find_files(root, category), category, corpus)
    return replace(raw, counts={**raw.counts, **counts})


def demo_settings(cfg: Config) -> DemoSettings:
    """The demo store's settings.

    Raises:
        ConfigError: `data` is not the demo.
    """
    if cfg.data.layout is not DataLayout.demo:
        raise ConfigError(f"data={cfg.data.name}: only data=demo knows its shoppers' preferences")
    data: Any = cfg.data
    return DemoSettings(
        seed=data.store_seed,
        shoppers=data.shoppers,
        products=data.products,
        queries_per_category=data.queries_per_category,
    )


def write_demo(cfg: Config) -> Path:
    """Writes the demo store unless it is there, and returns its root."""
    settings = demo_settings(cfg)
    root = Path(cfg.data.root) / settings.fingerprint[:12]
    write_demo_store(root, settings)
    return root
