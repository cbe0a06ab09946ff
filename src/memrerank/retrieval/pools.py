"""Candidate pools: one retriever's best products for every query, kept on disk."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from memrerank.data.corpus import as_corpus
from memrerank.errors import ConfigError
from memrerank.schema import Benchmark, Pool, Product, Query
from memrerank.storage import atomic_path, canonical_json, fingerprint

log = logging.getLogger(__name__)

FORMAT = 2  # raise it when old cache files shall not be read any more


class Retriever(Protocol):
    """A way to find candidate products for a query (the `retriever` config group)."""

    name: str
    held_out: bool  # evaluation only, never training

    def search(self, corpus: Mapping[str, Product], queries: Sequence[Query], k: int) -> list[Pool]:
        """The `k` best products of the corpus for each query, ties broken by product id."""

    def settings(self) -> dict[str, Any]:
        """All that the pools depend on besides products and queries; JSON-serialisable."""


def load_pools(
    benchmark: Benchmark,
    retriever: Retriever,
    *,
    k: int,
    cache_dir: Path,
    counts: MutableMapping[str, int] | None = None,
) -> dict[str, Pool]:
    """Pools of all queries of a benchmark, by query id; read from the cache or made and kept.

    The cache file is named after the texts of products and queries, the retriever's settings and
    k, and nothing else: benchmarks that differ only in splits or histories share their pools.

    Args:
        counts: if given, `pools_read`, `pools_made` and `pool_files_damaged` are added to it.

    Raises:
        ConfigError: `k` is below 1.
    """
    if k < 1:
        raise ConfigError(f"retrieval k={k} will not do; set it to 1 or more (paper: 100)")
    queries = sorted(
        (query for split in benchmark.queries.values() for query in split),
        key=lambda query: query.id,
    )
    counts = {} if counts is None else counts
    key = _pools_fingerprint(benchmark.corpus, queries, retriever, k)
    path = Path(cache_dir) / "pools" / f"{retriever.name}-{key}.jsonl"
    if path.exists():
        try:
            pools = _read(path, retriever.name)
        except ValueError as error:
            log.warning("the cached pools %s are damaged (%s) and are made again", path, error)
            counts["pool_files_damaged"] = counts.get("pool_files_damaged", 0) + 1
        else:
            counts["pools_read"] = counts.get("pools_read", 0) + len(pools)
            return pools
    pools = {pool.query_id: pool for pool in retriever.search(benchmark.corpus, queries, k)}
    _write(path, pools.values())
    counts["pools_made"] = counts.get("pools_made", 0) + len(pools)
    return pools


def recall_at_k(pools: Mapping[str, Pool], queries: Sequence[Query], k: int) -> float:
    """The share of queries whose positive is among the first `k` products of their pool.

    Raises:
        ValueError: there are no queries.
    """
    if not queries:
        raise ValueError("recall needs at least one query")
    hits = sum(query.positive_id in pools[query.id].product_ids[:k] for query in queries)
    return hits / len(queries)


def _pools_fingerprint(
    corpus: Mapping[str, Product], queries: Sequence[Query], retriever: Retriever, k: int
) -> str:
    return fingerprint(
        {
            "format": FORMAT,
            "products": as_corpus(corpus).fingerprint,
            "queries": [[query.id, query.text] for query in queries],
            "retriever": retriever.settings(),
            "k": k,
        }
    )


def _write(path: Path, pools: Iterable[Pool]) -> None:
    """One line with the sha256 of the rest, then one line per query."""
    body = "".join(canonical_json([pool.query_id, *pool.product_ids]) + "\n" for pool in pools)
    with atomic_path(path) as temporary:
        temporary.write_text(f"{_digest(body)}\n{body}", encoding="utf-8")


def _read(path: Path, retriever: str) -> dict[str, Pool]:
    """Raises ValueError when the file is not what `_write` wrote."""
    digest, _, body = path.read_text(encoding="utf-8").partition("\n")
    if digest != _digest(body):
        raise ValueError("its checksum does not match its content")
    pools = {}
    for line in body.split("\n")[:-1]:
        query_id, *product_ids = json.loads(line)
        pools[query_id] = Pool(query_id, retriever, tuple(product_ids))
    return pools


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
