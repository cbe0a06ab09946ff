"""A Benchmark from raw files: queries with a purchase time, histories before it, and splits."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from memrerank.data import amazon
from memrerank.data.joins import ProductRow, RawBenchmark, read_raw
from memrerank.data.splits import split_by_user
from memrerank.data.text import product_text
from memrerank.errors import ConfigError, DataError
from memrerank.schema import Benchmark, History, Product, Purchase, Query, Split
from memrerank.storage import file_sha256, fingerprint

FORMAT = 1  # raise it when the same files and settings shall give another benchmark


def load_benchmark(
    root: Path,
    category: str,
    *,
    max_history: int,
    max_words: int,
    seed: int,
    source: str,
    min_queries: int = 0,
) -> Benchmark:
    """Reads the benchmark of one category from the raw layout under `root` (see docs/data.md).

    Args:
        max_history: newest purchases kept of each of the within and cross histories.
        max_words: cap on title and description of a product together (paper: 120 words).
        seed: of the split.
        source: name of the data set, part of the fingerprint.
        min_queries: fewer kept queries than this are an error.

    Raises:
        ConfigError: a setting is out of range.
        DataError: a file is missing or malformed, or no query is left for some split.
    """
    for name, value in (("max_history", max_history), ("max_words", max_words)):
        if value < 1:
            raise ConfigError(f"data.{name}={value} will not do; set it to 1 or more")
    files = amazon.find_files(root, category)
    raw = read_raw(files, category)
    counts = raw.counts
    products = build_products(raw.products, max_words, counts)
    corpus = _build_corpus(raw.products, products, counts)
    histories = _build_histories(raw, products, category, max_history, counts)
    queries = _keep_queries(raw.queries, corpus, histories, counts)
    if len(queries) < max(min_queries, 1):
        raise DataError(
            f"{category}: {len(queries)} queries are left and at least {max(min_queries, 1)} are "
            f"needed; {_describe(counts)}"
        )
    splits = split_by_user(queries, seed)
    _check_splits(splits, category, counts)
    return Benchmark(
        category=category,
        queries=splits,
        histories={query.id: histories[query.id] for query in queries},
        corpus=corpus,
        counts=dict(counts),
        fingerprint=_fingerprint(files, category, max_history, max_words, seed, source),
    )


def build_products(
    rows: Iterable[ProductRow], max_words: int, counts: Counter[str]
) -> dict[str, Product]:
    """Products with a text, by id: metadata with a title, else the item pool's own text."""
    products: dict[str, Product] = {}
    for row in rows:
        title, description = row.title or "", ""
        if title.strip():
            title, description = product_text(
                title, row.description, row.features, row.details, max_words
            )
        else:
            title, _ = product_text(row.item_text or "", None, None, None, max_words)
            counts["products_with_item_pool_text"] += bool(title)
        if title:
            products[row.id] = Product(row.id, title, description, row.category)
        elif row.described:
            counts["products_without_a_title"] += 1
        else:
            counts["products_without_metadata"] += 1
    return products


def _build_corpus(
    rows: Iterable[ProductRow], products: Mapping[str, Product], counts: Counter[str]
) -> dict[str, Product]:
    """The products of the item pool and all positives that have a text, by id, sorted."""
    corpus: dict[str, Product] = {}
    for row in rows:
        counts["products_in_the_item_pool"] += row.in_items
        if row.id in products and (row.in_items or row.is_positive):
            corpus[row.id] = products[row.id]
            counts["positives_added_to_the_corpus"] += not row.in_items
    counts["products_in_the_corpus"] = len(corpus)
    return corpus


def _build_histories(
    raw: RawBenchmark,
    products: Mapping[str, Product],
    category: str,
    max_history: int,
    counts: Counter[str],
) -> dict[str, History]:
    """The history of every query, empty or not, by query id."""
    described = {row.id for row in raw.products if row.described}
    sides: dict[tuple[str, bool], list[Purchase]] = {}
    for row in raw.purchases:
        counts["purchases_before_a_target"] += 1
        if row.product_id in products:
            purchase = Purchase(products[row.product_id], row.timestamp)
            sides.setdefault((row.query_id, row.within), []).append(purchase)
        elif row.product_id in described:
            counts["purchases_dropped_no_title"] += 1
        else:
            counts["purchases_dropped_no_metadata"] += 1
    for (_, within), side in sides.items():
        counts["purchases_dropped_over_max_history"] += max(0, len(side) - max_history)
        counts[f"purchases_kept_{'within' if within else 'cross'}"] += min(len(side), max_history)
    return {
        query.id: History(
            user_id=query.user_id,
            category=category,
            within=tuple(sides.get((query.id, True), ())[-max_history:]),
            cross=tuple(sides.get((query.id, False), ())[-max_history:]),
        )
        for query in raw.queries
    }


def _keep_queries(
    queries: Iterable[Query],
    corpus: Mapping[str, Product],
    histories: Mapping[str, History],
    counts: Counter[str],
) -> list[Query]:
    """The queries whose positive has a text and whose user bought something before."""
    kept = []
    for query in queries:
        history = histories[query.id]
        if query.positive_id not in corpus:
            counts["queries_dropped_positive_without_text"] += 1
        elif not history.within and not history.cross:
            counts["queries_dropped_empty_history"] += 1
        else:
            kept.append(query)
            counts["queries_without_within_history"] += not history.within
            counts["queries_without_cross_history"] += not history.cross
    counts["queries_kept"] = len(kept)
    return kept


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
    files: amazon.StoreFiles,
    category: str,
    max_history: int,
    max_words: int,
    seed: int,
    source: str,
) -> str:
    """The sha256 over what was read (name, size, content of each file) and all settings."""
    identities = [
        [path.relative_to(files.root).as_posix(), path.stat().st_size, file_sha256(path)]
        for path in files.all
    ]
    settings = [FORMAT, category, max_history, max_words, seed, source]
    return fingerprint({"files": identities, "settings": settings})
