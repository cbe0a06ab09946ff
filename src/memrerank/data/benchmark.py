"""A Benchmark from what a source came to: histories before each target, filters, and splits."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import duckdb

from memrerank.categories import label_of
from memrerank.data.corpus import Corpus
from memrerank.data.engine import connect, view
from memrerank.data.products import make_corpus, make_texts, read_products
from memrerank.data.raw import RawStore
from memrerank.data.rewrite import QueryToRewrite, Rewrites
from memrerank.data.splits import split_by_user
from memrerank.data.steps import Artifact, Steps
from memrerank.errors import ConfigError, DataError
from memrerank.schema import Benchmark, History, Product, Purchase, Query, Split
from memrerank.storage import fingerprint

log = logging.getLogger(__name__)

FORMAT = 2  # raise it when the same files and settings shall give another benchmark
CATEGORIES_SHOWN = 20  # in the message about a category without queries

Rewriter = Callable[[Sequence[QueryToRewrite]], Rewrites]


@dataclass(frozen=True, slots=True)
class BenchmarkSettings:
    """What a benchmark depends on besides its source.

    Args:
        category: whose queries.
        max_history: newest purchases kept of each of the within and cross histories.
        max_words: cap on title and description of a product together (paper: 120 words).
        split_seed: of the split, where the source gives none.
        source: name of the data set, part of the fingerprint.

    Raises:
        ConfigError: a setting is out of range.
    """

    category: str
    max_history: int
    max_words: int
    split_seed: int
    source: str

    def __post_init__(self) -> None:
        for name in ("max_history", "max_words"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"data.{name}={getattr(self, name)} will not do; set it to 1 or more"
                )


class TargetRow(NamedTuple):
    """A query of the category as the source has it."""

    query_id: str
    text: str
    user_id: str
    product_id: str
    timestamp: int
    split: str | None
    review: str | None


class PurchaseRow(NamedTuple):
    """A purchase that lies before the target of a query."""

    query_id: str
    product_id: str
    timestamp: int
    within: bool


def build_benchmark(
    steps: Steps, raw: RawStore, settings: BenchmarkSettings, rewrite: Rewriter | None = None
) -> Benchmark:
    """The benchmark of one category.

    Args:
        rewrite: gives the kept queries new texts; None leaves them as they are.

    Raises:
        DataError: no query is left for some split.
    """
    texts = make_texts(steps, raw.products, settings.max_words)
    corpus = make_corpus(steps, texts)
    with connect(steps.engine, steps.folder) as connection:
        targets, purchases, products, described = _read(connection, raw, texts, settings.category)
        counts = _count_targets(connection, raw, len(targets))
        if not targets:
            raise DataError(_no_target(connection, settings.category, counts))
    counts.update(texts.counts)
    histories = _build_histories(targets, purchases, products, described, settings, counts)
    kept = _keep_targets(targets, corpus, histories, counts)
    queries = _make_queries(kept, settings.category, rewrite, counts)
    splits = _split(kept, queries, settings.split_seed)
    _check_splits(splits, settings.category, counts)
    return Benchmark(
        category=settings.category,
        queries=splits,
        histories={query.id: histories[query.id] for query in queries},
        corpus=corpus,
        counts=dict(counts),
        fingerprint=_fingerprint(raw, texts, corpus, settings, queries),
    )


def _read(
    connection: duckdb.DuckDBPyConnection, raw: RawStore, texts: Artifact, category: str
) -> tuple[list[TargetRow], list[PurchaseRow], dict[str, Product], set[str]]:
    """The category's targets and purchases, the purchased products, and which are described."""
    view(connection, "targets", [raw.targets.path])
    view(connection, "purchases", [raw.purchases.path])
    view(connection, "texts", [texts.path])
    targets = connection.execute(
        """SELECT query_id, text, user_id, product_id, timestamp, split, review FROM targets
           WHERE category = ? ORDER BY query_id""",
        [category],
    ).fetchall()
    connection.execute(
        """CREATE TEMP TABLE before AS
           SELECT query_id, product_id, timestamp, within FROM purchases WHERE category = ?""",
        [category],
    )
    purchases = connection.execute(
        "SELECT * FROM before ORDER BY query_id, timestamp, product_id"
    ).fetchall()
    products, described = read_products(
        connection, "SELECT * FROM texts WHERE id IN (SELECT product_id FROM before)"
    )
    return (
        [TargetRow(*row) for row in targets],
        [PurchaseRow(*row) for row in purchases],
        products,
        described,
    )


def _count_targets(
    connection: duckdb.DuckDBPyConnection, raw: RawStore, targets: int
) -> Counter[str]:
    counts = Counter(raw.counts)
    others = connection.execute("SELECT count(DISTINCT query_id) FROM targets").fetchall()[0][0]
    counts["queries_of_other_categories"] = others - targets
    counts["queries_of_the_category"] = targets
    return counts


def _no_target(connection: duckdb.DuckDBPyConnection, category: str, counts: Counter[str]) -> str:
    rows = connection.execute(
        "SELECT category, count(*) FROM targets GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    there = ", ".join(f"{label_of(name)} {number}" for name, number in rows[:CATEGORIES_SHOWN])
    return (
        f"no query of category {category}; {_describe(counts)}; choose another category= "
        f"(with queries: {there or 'none'})"
    )


def _build_histories(
    targets: Sequence[TargetRow],
    purchases: Iterable[PurchaseRow],
    products: Mapping[str, Product],
    described: set[str],
    settings: BenchmarkSettings,
    counts: Counter[str],
) -> dict[str, History]:
    """The history of every query, empty or not, by query id."""
    newest = settings.max_history
    sides: dict[tuple[str, bool], list[Purchase]] = {}
    for row in purchases:
        counts["purchases_before_a_target"] += 1
        if row.product_id in products:
            purchase = Purchase(products[row.product_id], row.timestamp)
            sides.setdefault((row.query_id, row.within), []).append(purchase)
        elif row.product_id in described:
            counts["purchases_dropped_no_title"] += 1
        else:
            counts["purchases_dropped_no_metadata"] += 1
    for (_, within), side in sides.items():
        counts["purchases_dropped_over_max_history"] += max(0, len(side) - newest)
        counts[f"purchases_kept_{'within' if within else 'cross'}"] += min(len(side), newest)
    return {
        target.query_id: History(
            user_id=target.user_id,
            category=settings.category,
            within=tuple(sides.get((target.query_id, True), ())[-newest:]),
            cross=tuple(sides.get((target.query_id, False), ())[-newest:]),
        )
        for target in targets
    }


def _keep_targets(
    targets: Iterable[TargetRow],
    corpus: Corpus,
    histories: Mapping[str, History],
    counts: Counter[str],
) -> list[TargetRow]:
    """The queries whose positive has a text and whose user bought something before."""
    kept = []
    for target in targets:
        history = histories[target.query_id]
        if target.product_id not in corpus:
            counts["queries_dropped_positive_without_text"] += 1
        elif not history.within and not history.cross:
            counts["queries_dropped_empty_history"] += 1
        else:
            kept.append(target)
            counts["queries_without_within_history"] += not history.within
            counts["queries_without_cross_history"] += not history.cross
    counts["queries_kept"] = len(kept)
    return kept


def _make_queries(
    targets: Sequence[TargetRow],
    category: str,
    rewrite: Rewriter | None,
    counts: Counter[str],
) -> list[Query]:
    """Queries with their final texts. The review ends here: no Query carries it."""
    queries = [
        Query(row.query_id, row.text, row.user_id, row.product_id, category, row.timestamp)
        for row in targets
    ]
    if rewrite is not None and targets:
        rows = [QueryToRewrite(row.query_id, row.text, row.review) for row in targets]
        rewrites = rewrite(rows)
        queries = [replace(query, text=rewrites.texts[query.id]) for query in queries]
        counts.update({f"rewriting_{name}": n for name, n in rewrites.counts.items()})
    return [replace(query, text=" ".join(query.text.split())) for query in queries]


def _split(
    targets: Sequence[TargetRow], queries: Sequence[Query], seed: int
) -> dict[Split, tuple[Query, ...]]:
    """The source's own splits where it gives them, else drawn by user."""
    given = {target.query_id: target.split for target in targets}
    if not any(given.values()):
        return split_by_user(queries, seed)
    return {split: tuple(q for q in queries if given[q.id] == split.value) for split in Split}


def _check_splits(
    splits: Mapping[Split, Sequence[Query]], category: str, counts: Counter[str]
) -> None:
    for split, members in splits.items():
        counts[f"queries_in_{split.value}"] = len(members)
    empty = [split.value for split, members in splits.items() if not members]
    if empty:
        sizes = ", ".join(f"{split.value} {len(members)}" for split, members in splits.items())
        raise DataError(
            f"{category}: no {' and no '.join(empty)} queries left after filtering ({sizes}); "
            f"{_describe(counts)}; a category needs queries of at least three users"
        )


def _describe(counts: Counter[str]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')}: {n}" for name, n in counts.items() if name.startswith("queries")
    )


def _fingerprint(
    raw: RawStore,
    texts: Artifact,
    corpus: Corpus,
    settings: BenchmarkSettings,
    queries: Sequence[Query],
) -> str:
    """The sha256 over all that the benchmark was made from, wherever it lies."""
    return fingerprint(
        {
            "format": FORMAT,
            "targets": raw.targets.sha256,
            "purchases": raw.purchases.sha256,
            "texts": texts.sha256,
            "corpus": corpus.fingerprint,
            "category": settings.category,
            "max_history": settings.max_history,
            "max_words": settings.max_words,
            "split_seed": settings.split_seed,
            "source": settings.source,
            "queries": [[query.id, query.text] for query in queries],
        }
    )
