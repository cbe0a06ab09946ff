"""The demo store's files: Amazon's fields and nothing else, and nothing that is hidden."""

import csv
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from raw_records import load_benchmark

from memrerank.data.demo import DemoSettings, write_demo_store, writer
from memrerank.data.demo.vocabulary import BEAUTY, ELECTRONICS, OTHER_CATEGORIES
from memrerank.errors import DataError
from memrerank.memory.oracle import describe_pastime, describe_taste
from memrerank.retrieval.bm25 import BM25Retriever

# The fields of the raw files of Amazon-Reviews-2023 and of Amazon-C4, in their order.
REVIEW = [
    "rating",
    "title",
    "text",
    "images",
    "asin",
    "parent_asin",
    "user_id",
    "timestamp",
    "helpful_vote",
    "verified_purchase",
]
META = [
    "main_category",
    "title",
    "average_rating",
    "rating_number",
    "features",
    "description",
    "price",
    "images",
    "videos",
    "store",
    "categories",
    "details",
    "parent_asin",
    "bought_together",
]
POOL = ["item_id", "category", "metadata"]
QUERY = ["qid", "query", "item_id", "user_id", "ori_rating", "ori_review"]
CATEGORIES = (ELECTRONICS, BEAUTY, *OTHER_CATEGORIES)
TINY = DemoSettings(shoppers=20, products=600, queries_per_category=5)
# Of the files of TINY. When a change of the generator changes it, raise GENERATOR_VERSION too.
TINY_DIGEST = "47d367f22a045cd749193163f0064801842dfc7c74ebbb2846432d85cac88b91"


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_queries(root: Path) -> list[dict[str, str]]:
    with (root / "amazon_c4/test.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def digest(root: Path) -> str:
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    lines = [
        f"{path.relative_to(root).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in paths
        if path.name != writer.STAMP
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_the_layout_is_amazons(small) -> None:
    found = {
        path.relative_to(small.root).as_posix() for path in small.root.rglob("*") if path.is_file()
    }
    assert found == {
        *(f"raw/review_categories/{category}.jsonl" for category in CATEGORIES),
        *(f"raw/meta_categories/meta_{category}.jsonl" for category in CATEGORIES),
        "amazon_c4/test.csv",
        "amazon_c4/sampled_item_metadata_1M.jsonl",
        "demo_store.json",
    }
    assert len(CATEGORIES) >= 8


def test_the_fields_are_amazons_and_no_others(small) -> None:
    for category in CATEGORIES:
        for record in read_lines(small.root / f"raw/review_categories/{category}.jsonl"):
            assert list(record) == REVIEW
        for record in read_lines(small.root / f"raw/meta_categories/meta_{category}.jsonl"):
            assert list(record) == META
            assert set(record["details"]) == {"Brand"}
    for record in read_lines(small.root / "amazon_c4/sampled_item_metadata_1M.jsonl"):
        assert list(record) == POOL
    assert list(read_queries(small.root)[0]) == QUERY
    assert list(json.loads((small.root / "demo_store.json").read_text())) == ["fingerprint"]


def test_ids_and_times_have_amazons_shape(small) -> None:
    for sale in small.shop.sales:
        assert re.fullmatch(r"B0[A-Z2-7]{8}", sale.item.id)
        assert re.fullmatch(r"A[A-Z2-7]{27}", sale.user_id)
        assert 1_400_000_000_000 < sale.timestamp < 1_750_000_000_000  # milliseconds, 2014-2025


def test_no_persona_is_in_any_file(small) -> None:
    text = "".join(path.read_text() for path in small.root.rglob("*") if path.is_file())
    for preferences in small.preferences.values():
        assert describe_pastime(preferences) not in text
        for taste in preferences.tastes.values():
            assert describe_taste(taste) not in text


def test_queries_tell_nothing_that_their_shopper_likes(small) -> None:
    for query in read_queries(small.root):
        words = re.findall(r"[a-z0-9-]+", query["query"].lower())
        preferences = small.preferences[query["user_id"]]
        told = list(preferences.pastime.use.titles)
        for taste in preferences.tastes.values():
            told += taste.brand_names
            told += taste.tier_value.titles
            told += [w for value in taste.values.values() for w in value.titles]
        # "oil", "free" and "vitamin c"'s "c" are not tastes, nor are the small words.
        secret = {w for phrase in told for w in phrase.lower().split()}
        secret -= {"for", "the", "oil", "free", "c", "beauty", "new", "no", "air", "home"}
        assert not secret & set(words), (query["query"], secret & set(words))


def test_reviews_say_the_same_whatever_the_shopper_likes(small) -> None:
    known = {pair for pairs in writer.REVIEWS.values() for pair in pairs}
    for category in CATEGORIES:
        for record in read_lines(small.root / f"raw/review_categories/{category}.jsonl"):
            assert (record["title"], record["text"]) in known
    for query in read_queries(small.root):
        assert query["ori_review"] in {f"{title} {text}" for title, text in known}


def test_every_query_has_its_review(small) -> None:
    reviewed = {
        (record["user_id"], record["parent_asin"])
        for category in CATEGORIES
        for record in read_lines(small.root / f"raw/review_categories/{category}.jsonl")
    }
    queries = read_queries(small.root)
    assert len(queries) == 80
    assert {(query["user_id"], query["item_id"]) for query in queries} <= reviewed
    assert len({query["user_id"] for query in queries}) == 80
    assert [query["qid"] for query in queries] == [str(n) for n in range(80)]


@pytest.mark.parametrize("category", [ELECTRONICS, BEAUTY])
def test_the_reader_keeps_every_query_and_the_pools_answer_the_need(small, category: str) -> None:
    benchmark = load_benchmark(
        small.root, category, max_history=20, max_words=120, seed=0, source="demo"
    )
    queries = [query for split in benchmark.queries.values() for query in split]
    assert len(queries) == 40
    assert len(benchmark.corpus) == 900
    assert not any(n for name, n in benchmark.counts.items() if "dropped" in name)
    pools = BM25Retriever().search(benchmark.corpus, queries, 100)
    for query, pool in zip(queries, pools, strict=True):
        need = small.items[query.positive_id].need
        rivals = [small.items[id] for id in pool.product_ids]
        answering = sum(item.category == category and item.need == need for item in rivals)
        assert query.positive_id in pool.product_ids
        assert answering >= 15


def test_a_seed_fixes_every_byte_in_any_process(tmp_path: Path) -> None:
    write_demo_store(tmp_path / "here", TINY)
    code = (
        "from pathlib import Path; from memrerank.data.demo import *; "
        f"write_demo_store(Path({str(tmp_path / 'there')!r}), {TINY!r})"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert digest(tmp_path / "here") == digest(tmp_path / "there") == TINY_DIGEST


def test_another_seed_makes_another_store(tmp_path: Path) -> None:
    other = DemoSettings(seed=1, shoppers=20, products=600, queries_per_category=5)
    write_demo_store(tmp_path, other)
    assert digest(tmp_path) != TINY_DIGEST
    assert other.fingerprint != TINY.fingerprint


def test_a_store_that_is_there_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_demo_store(tmp_path / "store", TINY)
    monkeypatch.setattr(writer, "run_shop", lambda settings: pytest.fail("made a second time"))
    write_demo_store(tmp_path / "store", TINY)
    assert digest(tmp_path / "store") == TINY_DIGEST


def test_a_store_of_other_settings_is_replaced(tmp_path: Path) -> None:
    other = DemoSettings(seed=1, shoppers=20, products=600, queries_per_category=5)
    write_demo_store(tmp_path / "store", other)
    write_demo_store(tmp_path / "store", TINY)
    assert digest(tmp_path / "store") == TINY_DIGEST


def test_a_failed_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, rows: list) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(writer, "_write_queries", fail)
    with pytest.raises(OSError, match="disk full"):
        write_demo_store(tmp_path / "store", TINY)
    assert list(tmp_path.iterdir()) == []


def test_a_half_store_of_a_killed_run_is_not_taken_for_whole(tmp_path: Path) -> None:
    write_demo_store(tmp_path / "store", TINY)
    (tmp_path / "store" / writer.STAMP).unlink()
    with pytest.raises(DataError, match="holds files that are no demo store"):
        write_demo_store(tmp_path / "store", TINY)


def test_the_process_that_comes_second_keeps_the_store_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writer.run_shop

    def slow(settings: DemoSettings):
        monkeypatch.setattr(writer, "run_shop", real)
        write_demo_store(tmp_path / "store", settings)  # another process, meanwhile
        (tmp_path / "store" / "mark").touch()
        return real(settings)

    monkeypatch.setattr(writer, "run_shop", slow)
    monkeypatch.setattr(writer.os, "getpid", iter(range(100)).__next__)
    write_demo_store(tmp_path / "store", TINY)
    assert (tmp_path / "store" / "mark").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
