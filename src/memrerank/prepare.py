"""Preparation: the data, the pools and the instances of a benchmark, and a report on them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from memrerank import pipeline, sources
from memrerank.config import Config
from memrerank.config.data import Rewrite
from memrerank.data.rewrite import write_rewrites
from memrerank.data_report import (
    REPORT_FILE,
    Coverage,
    DataFacts,
    collect_facts,
    facts_metrics,
    measure_coverage,
    write_report,
)
from memrerank.errors import ConfigError
from memrerank.schema import Benchmark, Split
from memrerank.tracking import open_run

log = logging.getLogger(__name__)

ARTIFACTS = "data_report"  # the folder of the report in the MLflow run
REWRITES_FILE = "rewrites.jsonl"


def prepare(cfg: Config, output_dir: Path) -> None:
    """Makes all that training and evaluation need of the data; `output_dir` gets the report.

    Raises:
        MemrerankError: the configuration or the data will not do; the message says why.
    """
    names = choose_retrievers(cfg)
    data = sources.make_data(cfg)
    coverage = [row for name in names for row in retrieve(cfg, data.benchmark, name)]
    steps = sources.make_steps(cfg)
    facts = collect_facts(
        replace(data, sources=relative_to(Path(cfg.data.root), data.sources)),
        coverage,
        settings=report_settings(cfg),
        min_queries=cfg.report.min_queries,
        engine=steps.engine,
        folder=steps.folder,
    )
    files = [*write_report(output_dir, facts), *write_texts(cfg, data.benchmark, output_dir)]
    run_id = record(cfg, facts, files)
    report = output_dir / REPORT_FILE
    print(f"\n{report.read_text()}\nwritten to {report}, MLflow run {run_id}")


def choose_retrievers(cfg: Config) -> list[str]:
    """Those of `report.retrievers` and the one that is evaluated, each once.

    Raises:
        ConfigError: there is none of that name.
    """
    known = {*cfg.retrievers, cfg.retriever.name}
    for name in cfg.report.retrievers:
        if name not in known:
            raise ConfigError(f"report.retrievers: no retriever {name}; known: {sorted(known)}")
    return list(dict.fromkeys([*cfg.report.retrievers, cfg.retriever.name]))


def retrieve(cfg: Config, benchmark: Benchmark, name: str) -> list[Coverage]:
    """The pools of one retriever, and what they cover of each split.

    Of a held-out retriever no instances are drawn, unless `retrieval.allow_held_out` says so.
    """
    log.info("Pools of %s", name)
    held_out = pipeline.retriever_node(cfg, name).held_out and not cfg.retrieval.allow_held_out
    per_pair = {Split.train: cfg.instances.train, Split.dev: cfg.instances.dev}
    return measure_coverage(
        benchmark,
        name,
        pipeline.make_pools(cfg, benchmark, name),
        pool_size=cfg.retrieval.pool_size,
        per_pair={} if held_out else per_pair,
        seed=cfg.data.split_seed,
    )


def relative_to(root: Path, sources: Mapping[str, str]) -> dict[str, str]:
    """The hashes by the files' paths below the root, which the report names once."""
    paths = {Path(path): sha256 for path, sha256 in sources.items()}
    return {
        str(path.relative_to(root) if path.is_relative_to(root) else path): sha256
        for path, sha256 in paths.items()
    }


def report_settings(cfg: Config) -> dict[str, str]:
    """What the data was made with, by what the command line calls it."""
    rewrite = {
        Rewrite.none: "none: texts as the data set has them",
        Rewrite.llm: f"llm: by {cfg.rewriter.model}",
        Rewrite.file: f"file: from {cfg.data.rewrites}",
    }[cfg.data.rewrite]
    return {
        "category": f"{cfg.category.label} ({cfg.category.name})",
        "data": cfg.data.name,
        "data.root": cfg.data.root,
        "corpus": cfg.corpus.name.value,
        "data.rewrite": rewrite,
        "data.max_history": str(cfg.data.max_history),
        "data.max_words": str(cfg.data.max_words),
        "data.split_seed": str(cfg.data.split_seed),
        "retrieval.pool_size": str(cfg.retrieval.pool_size),
        "instances": f"{cfg.instances.train} per eligible train pair, {cfg.instances.dev} of dev",
    }


def write_texts(cfg: Config, benchmark: Benchmark, folder: Path) -> list[Path]:
    """The queries that a model rewrote, as `data.rewrite=file` reads them; none otherwise."""
    if cfg.data.rewrite is not Rewrite.llm:
        return []
    texts = {query.id: query.text for split in Split for query in benchmark.queries[split]}
    write_rewrites(folder / REWRITES_FILE, texts)
    return [folder / REWRITES_FILE]


def record(cfg: Config, facts: DataFacts, files: Sequence[Path]) -> str:
    """Puts the report into a run of its own, and returns the run's id."""
    labels = asdict(pipeline.RunLabels.of(cfg))
    tags = {"kind": "prepare", **labels, **facts.fingerprints}
    name = f"prepare {labels['category']} {labels['data']}"
    with open_run(cfg.tracking.uri, cfg.tracking.experiment, name, tags) as run:
        pipeline.log_config(cfg, run)
        run.log_metrics(facts_metrics(facts))
        for file in files:
            run.log_files(file, ARTIFACTS)
    return run.id
