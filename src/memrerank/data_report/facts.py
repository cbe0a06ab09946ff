"""All that a data report tells, gathered in one place, and the scalars among it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memrerank.data.corpus import as_corpus
from memrerank.data.engine import EngineSettings, connect
from memrerank.data.leaks import LeakReport
from memrerank.data.prepared import PreparedData
from memrerank.data.steps import Artifact
from memrerank.data_report.averages import mean_and_median
from memrerank.data_report.coverage import Coverage
from memrerank.data_report.histories import (
    HistoryLengths,
    KeptLengths,
    history_lengths,
    kept_lengths,
)
from memrerank.data_report.leaks import IN_USE, benchmark_leaks
from memrerank.data_report.texts import CorpusTexts, corpus_texts
from memrerank.schema import Benchmark, Split


@dataclass(frozen=True, slots=True)
class SplitSize:
    """How many queries a split has, and of how many users."""

    queries: int
    users: int


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What there is to tell of a benchmark. No user's id is in it."""

    category: str
    settings: dict[str, str]  # what the data was made with, by what the command line calls it
    splits: dict[Split, SplitSize]
    coverage: list[Coverage]
    histories: list[HistoryLengths]  # of all categories, before filters
    min_queries: int  # categories with fewer are left out of the figure
    kept: KeptLengths  # of this category, after filters
    texts: CorpusTexts
    leaks: dict[str, LeakReport]  # of the queries in use, and before they were rewritten
    counts: dict[str, int]  # the benchmark's own
    fingerprints: dict[str, str]  # of benchmark and corpus
    sources: dict[str, str]  # sha256 by path
    steps: dict[str, Artifact]  # by name


def collect_facts(
    data: PreparedData,
    coverage: Sequence[Coverage],
    *,
    settings: Mapping[str, str],
    min_queries: int,
    engine: EngineSettings,
    folder: Path,
) -> DataFacts:
    """Measures histories, texts and leaks; the corpus is streamed.

    Args:
        coverage: rows of `measure_coverage`, of all retrievers.
        engine: limits of the queries over the raw store.
        folder: where those may spill to, if `engine` does not say.
    """
    benchmark = data.benchmark
    with connect(engine, folder) as connection:
        histories = history_lengths(connection, data.raw)
        leaks = benchmark_leaks(connection, benchmark, data.raw)
    return DataFacts(
        category=benchmark.category,
        settings=dict(settings),
        splits=split_sizes(benchmark),
        coverage=list(coverage),
        histories=histories,
        min_queries=min_queries,
        kept=kept_lengths(benchmark.histories.values()),
        texts=corpus_texts(benchmark.corpus.values()),
        leaks=leaks,
        counts=dict(benchmark.counts),
        fingerprints={
            "benchmark": benchmark.fingerprint,
            "corpus": as_corpus(benchmark.corpus).fingerprint,
        },
        sources=dict(data.sources),
        steps=dict(data.steps),
    )


def split_sizes(benchmark: Benchmark) -> dict[Split, SplitSize]:
    """Queries and users of each split."""
    return {
        split: SplitSize(len(queries), len({query.user_id for query in queries}))
        for split, queries in benchmark.queries.items()
    }


def facts_metrics(facts: DataFacts) -> dict[str, float]:
    """The scalars of a report, by names that are the same for every category."""
    metrics: dict[str, float] = {}
    for split, size in facts.splits.items():
        metrics |= {f"{split}/queries": size.queries, f"{split}/users": size.users}
    for row in facts.coverage:
        group = f"{row.split}/{row.retriever}"
        metrics |= {f"{group}/recall_at_{k}": share for k, share in row.recall.items()}
        metrics[f"{group}/eligible_pairs"] = row.eligible
        if row.instances is not None:
            metrics[f"{group}/instances"] = row.instances
    leaks = facts.leaks[IN_USE]
    return {
        **metrics,
        **_history_metrics(facts),
        **_text_metrics(facts.texts),
        **{f"leaks/{name}": leaks.counts[name] for name in leaks.counts},
        **{f"leaks/share_{name}": leaks.share(name) for name in SHARES},
        **{f"counts/{name}": number for name, number in facts.counts.items()},
    }


SHARES = ("title_words", "review_runs", "either")  # of a leak check's counts


def _history_metrics(facts: DataFacts) -> dict[str, float]:
    """Lengths of this category, before filters and as kept."""
    metrics: dict[str, float] = {}
    for lengths in facts.histories:
        if lengths.category == facts.category:
            for name in ("within_mean", "within_median", "cross_mean", "cross_median"):
                metrics[f"histories/{name}"] = getattr(lengths, name)
    for side, kept in (("within", facts.kept.within), ("cross", facts.kept.cross)):
        mean, median = mean_and_median(kept)
        metrics |= {f"histories/kept_{side}_mean": mean, f"histories/kept_{side}_median": median}
    return metrics


def _text_metrics(texts: CorpusTexts) -> dict[str, float]:
    mean, median = mean_and_median(texts.words)
    return {
        "corpus/products": texts.products,
        "corpus/share_without_description": texts.share_without_description,
        "corpus/words_mean": mean,
        "corpus/words_median": median,
    }
