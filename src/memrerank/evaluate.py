"""Evaluation: memories for a split's queries, each pool ranked in full, MRR and what it took."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from memrerank import judging, pipeline
from memrerank.baselines import Source
from memrerank.building import build
from memrerank.config import Config
from memrerank.errors import DataError
from memrerank.estimating import estimate_evaluation, tell
from memrerank.evaluation.metrics import (
    Evaluation,
    evaluate_rankings,
    write_trec_qrels,
    write_trec_run,
)
from memrerank.evaluation.report import RESULT_FILE, RunResult, comparison_table
from memrerank.rerank.asking import Asker
from memrerank.rerank.ranking import rank_pools
from memrerank.schema import Benchmark, History, Memory, Pool, Query, Ranking
from memrerank.tracking import open_run

log = logging.getLogger(__name__)


def evaluate(cfg: Config, output_dir: Path) -> RunResult | None:
    """Evaluates one memory source; `output_dir` gets the result, the TREC files and the memories.

    Under `dry_run` it only tells what the judge would take, and returns None.

    Raises:
        MemrerankError: the configuration, the data or the judge will not do; the message says why.
    """
    benchmark = pipeline.make_benchmark(cfg)
    queries = choose_test_queries(cfg, benchmark)
    source: Source = build(cfg.baseline, context=cfg)
    pools = pipeline.make_pools(cfg, benchmark, cfg.retriever.name)
    if cfg.dry_run:
        memories, _ = build_memories(source, queries, benchmark)
        found = estimate_evaluation(cfg, queries, memories, pools, benchmark.corpus)
        tell(cfg, found, output_dir)
        return None
    labels = asdict(pipeline.RunLabels.of(cfg)) | {"baseline": cfg.baseline.name}
    name = f"eval {labels['category']}/{labels['target']} {labels['retriever']} {cfg.baseline.name}"
    tags = {"kind": "evaluate", "split": cfg.eval.split.value, **labels, **source.origin}
    with open_run(cfg.tracking.uri, cfg.tracking.experiment, name, tags) as run:
        pipeline.log_config(cfg, run)
        memories, memory_seconds = build_memories(source, queries, benchmark)
        judge = judging.make_reranker(cfg, benchmark, "evaluate")
        try:
            with judging.recorded_places(judge, run):
                rankings, rank_seconds = rank(cfg, queries, memories, pools, benchmark, judge)
        finally:  # what was spent is known of a run that was stopped, too
            run.log_metrics(judge.metrics())
        evaluation = evaluate_rankings(rankings, queries)
        result = RunResult(
            labels,
            evaluation.means
            | cost_metrics(rankings, len(queries), memory_seconds, rank_seconds)
            | memory_metrics(memories)
            | judge.metrics(),
            {measure: evaluation.per_query[measure] for measure in ("mrr_at_10", "mrr_at_5")},
        )
        known = judge.metrics()
        run.log_metrics({k: v for k, v in result.metrics.items() if k not in known})
        result.write(output_dir / RESULT_FILE)
        write_trec_run(output_dir / "rankings.trec", rankings, cfg.baseline.name)
        write_trec_qrels(output_dir / "qrels.trec", queries)
        write_queries(output_dir / "queries.jsonl", queries, memories, evaluation)
        for file in (RESULT_FILE, "rankings.trec", "qrels.trec", "queries.jsonl"):
            run.log_files(output_dir / file)
    print(f"\n{comparison_table([result])}\n\nwritten to {output_dir}, MLflow run {run.id}")
    return result


def choose_test_queries(cfg: Config, benchmark: Benchmark) -> Sequence[Query]:
    """The split's queries, at most `eval.max_queries` of them.

    Raises:
        DataError: there are none.
    """
    queries = benchmark.queries[cfg.eval.split][: cfg.eval.max_queries]
    if not queries:
        raise DataError(
            f"no {cfg.eval.split.value} queries in {cfg.category.name}; counts: "
            f"{benchmark.counts}. Choose another category, eval.split or eval.max_queries"
        )
    return queries


def build_memories(
    source: Source, queries: Sequence[Query], benchmark: Benchmark
) -> tuple[dict[str, Memory], float]:
    """Memories by query id, and the seconds that they took."""
    histories: list[History] = [benchmark.histories[query.id] for query in queries]
    started = time.perf_counter()
    memories = source.memories.build(histories)
    seconds = time.perf_counter() - started
    return {query.id: memory for query, memory in zip(queries, memories, strict=True)}, seconds


def rank(
    cfg: Config,
    queries: Sequence[Query],
    memories: Mapping[str, Memory],
    pools: Mapping[str, Pool],
    benchmark: Benchmark,
    judge: Asker,
) -> tuple[list[Ranking], float]:
    """Every pool ranked in full, and the seconds that it took."""
    started = time.perf_counter()
    rankings = rank_pools(
        queries,
        memories,
        pools,
        benchmark.corpus,
        judge,
        judging.make_ranking(cfg),
        stop_at_positive=cfg.eval.stop_at_positive,
        progress=True,
    )
    return rankings, time.perf_counter() - started


def cost_metrics(
    rankings: Sequence[Ranking], queries: int, memory_seconds: float, rank_seconds: float
) -> dict[str, float]:
    """What a query took: judge calls, dependent rounds, seconds; and answers that were invalid."""
    calls = sum(ranking.calls for ranking in rankings)
    return {
        "queries": float(queries),
        "calls_per_query": calls / queries,
        "rounds_per_query": sum(ranking.rounds for ranking in rankings) / queries,
        "invalid_rate": sum(ranking.invalid for ranking in rankings) / max(calls, 1),
        "memory_seconds_per_query": memory_seconds / queries,
        "rank_seconds_per_query": rank_seconds / queries,
        "seconds_per_query": (memory_seconds + rank_seconds) / queries,
    }


def memory_metrics(memories: Mapping[str, Memory]) -> dict[str, float]:
    """How long the memories are, and how many are empty or malformed."""
    found = list(memories.values())
    return {
        "memory_words": float(np.mean([len(memory.text.split()) for memory in found])),
        "empty_memories": float(np.mean([not memory.text for memory in found])),
        "flawed_memories": float(np.mean([bool(memory.flaws) for memory in found])),
    }


def write_queries(
    path: Path, queries: Sequence[Query], memories: Mapping[str, Memory], evaluation: Evaluation
) -> None:
    """One JSON line per query: its text, its memory, its reciprocal ranks. User ids stay out."""
    with path.open("w") as file:
        for query in queries:
            memory = memories[query.id]
            row = {
                "query_id": query.id,
                "query": query.text,
                "positive_id": query.positive_id,
                "within": memory.within,
                "cross": memory.cross,
                "flaws": memory.flaws,
                **{m: evaluation.per_query[m][query.id] for m in ("mrr_at_10", "mrr_at_5")},
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
