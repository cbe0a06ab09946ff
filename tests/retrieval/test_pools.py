"""load_pools and recall_at_k, with a retriever that counts how often it is asked."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from memrerank.data.corpus import Corpus, write_corpus
from memrerank.errors import ConfigError
from memrerank.retrieval.pools import load_pools, recall_at_k
from memrerank.schema import Benchmark, Pool, Product, Query, Split


class FirstProducts:
    """Returns the first `k` products of the corpus for every query."""

    held_out = False

    def __init__(self, name: str = "first", **settings: Any) -> None:
        self.name = name
        self._settings = settings
        self.searches = 0

    def settings(self) -> dict[str, Any]:
        return self._settings

    def search(self, corpus: Mapping[str, Product], queries: Sequence[Query], k: int) -> list[Pool]:
        self.searches += 1
        return [Pool(query.id, self.name, tuple(corpus)[:k]) for query in queries]


def benchmark(**changes: Any) -> Benchmark:
    """Three queries, one a split, over products pA to pF; each answered by another product."""
    corpus = {f"p{c}": Product(f"p{c}", f"Pen {c} \u2028", "", "Pens") for c in "ABCDEF"}
    queries = {
        split: (Query(f"q{n}\u2028", "a pen", f"u{n}", f"p{'ABC'[n]}", "Pens", 1),)
        for n, split in enumerate(Split)
    }
    return dataclasses.replace(Benchmark("Pens", queries, {}, corpus, {}, "print"), **changes)


def test_pools_of_all_splits_are_made_once_and_read_afterwards(tmp_path):
    retriever, counts = FirstProducts(), {}
    made = load_pools(benchmark(), retriever, k=2, cache_dir=tmp_path, counts=counts)
    read = load_pools(benchmark(), retriever, k=2, cache_dir=tmp_path, counts=counts)
    assert (
        made
        == read
        == {f"q{n}\u2028": Pool(f"q{n}\u2028", "first", ("pA", "pB")) for n in range(3)}
    )
    assert retriever.searches == 1
    assert counts == {"pools_made": 3, "pools_read": 3}


def test_whatever_the_pools_depend_on_makes_other_pools(tmp_path):
    base = benchmark()
    product = dataclasses.replace(base.corpus["pA"], title="Another pen")
    renamed = {f"r{id}": dataclasses.replace(one, id=f"r{id}") for id, one in base.corpus.items()}
    query = dataclasses.replace(base.queries[Split.dev][0], text="another pen")
    variants = [
        (base, FirstProducts(), 2),
        (base, FirstProducts(), 3),
        (base, FirstProducts(k1=2), 2),
        (base, FirstProducts(name="other"), 2),
        (benchmark(corpus={**base.corpus, "pA": product}), FirstProducts(), 2),
        (benchmark(corpus=renamed), FirstProducts(), 2),
        (benchmark(queries={**base.queries, Split.dev: (query,)}), FirstProducts(), 2),
    ]
    for variant, retriever, k in variants:
        load_pools(variant, retriever, k=k, cache_dir=tmp_path)
        assert retriever.searches == 1
    assert len(list((tmp_path / "pools").iterdir())) == len(variants)


def test_another_split_of_the_same_queries_shares_the_pools(tmp_path):
    base = benchmark()
    load_pools(base, FirstProducts(), k=2, cache_dir=tmp_path)
    swapped = {Split.train: base.queries[Split.test], Split.test: base.queries[Split.train]}
    other = benchmark(queries={**base.queries, **swapped}, fingerprint="other")
    retriever = FirstProducts()
    assert len(load_pools(other, retriever, k=2, cache_dir=tmp_path)) == 3
    assert retriever.searches == 0


def test_a_corpus_on_disk_shares_the_pools_of_the_same_products_in_memory(tmp_path):
    base = benchmark()
    made = load_pools(base, FirstProducts(), k=2, cache_dir=tmp_path)
    write_corpus(tmp_path / "products.arrow", base.corpus.values())
    opened = Corpus.open(tmp_path / "products.arrow", Corpus.of(base.corpus.values()).fingerprint)
    retriever = FirstProducts()
    read = load_pools(benchmark(corpus=opened), retriever, k=2, cache_dir=tmp_path)
    assert read == made
    assert retriever.searches == 0


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied", "binary"])
def test_damaged_cache_file_is_named_counted_and_made_again(tmp_path, caplog, damage):
    expected = load_pools(benchmark(), FirstProducts(), k=2, cache_dir=tmp_path)
    (path,) = (tmp_path / "pools").iterdir()
    whole = path.read_bytes()
    path.write_bytes(
        {
            "cut": whole[:-20],
            "changed": whole.replace(b"pB", b"pX", 1),
            "emptied": b"",
            "binary": b"\xff\xfe",
        }[damage]
    )
    counts: dict[str, int] = {}
    with caplog.at_level(logging.WARNING):
        again = load_pools(benchmark(), FirstProducts(), k=2, cache_dir=tmp_path, counts=counts)
    assert again == expected
    assert str(path) in caplog.text
    assert counts == {"pool_files_damaged": 1, "pools_made": 3}
    assert path.read_bytes() == whole


def test_k_below_one_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="retrieval k=0"):
        load_pools(benchmark(), FirstProducts(), k=0, cache_dir=tmp_path)


def test_recall_is_the_share_of_positives_among_the_first_k(tmp_path):
    base = benchmark()
    queries = [query for split in Split for query in base.queries[split]]  # pA, pB, pC
    pools = load_pools(base, FirstProducts(), k=2, cache_dir=tmp_path)
    assert recall_at_k(pools, queries, 1) == pytest.approx(1 / 3)
    assert recall_at_k(pools, queries, 2) == pytest.approx(2 / 3)
    assert recall_at_k(pools, queries, 100) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="at least one query"):
        recall_at_k(pools, [], 1)
