"""The authors' published benchmark: splits and histories as given, joined to texts."""

import csv
from pathlib import Path
from typing import Any

import pytest
from raw_records import item, make_steps, product, write_lines

from memrerank.data.amazon import authors_store
from memrerank.data.benchmark import BenchmarkSettings, build_benchmark
from memrerank.errors import DataError
from memrerank.schema import Benchmark, Split

DAY = 86_400_000
NOON = 1_600_000_000_000  # UTC milliseconds
FOLDER = "amazon-c4-user-purchase-history"


def entry(qid: int, history: dict[str, list[Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """A line about query `qid` of user `u{qid}` with the positive `p{qid}`."""
    if history is None:
        history = {"Pens": [[f"h{qid}", NOON, True]]}
    return {
        "user_id": f"u{qid}",
        "query": qid,
        "pos_product": f"p{qid}",
        "pos_product_category": "Pens",
        "grouped_purchase_history": history,
        **changes,
    }


def write_store(root: Path, **splits: list[dict[str, Any]]) -> Path:
    """A data root with the lines of each split; every product p1..p4, h1..h4 is described."""
    for split in ("train", "dev", "test"):
        write_lines(root / FOLDER / "Pens" / f"{split}.jsonl", splits.get(split, []))
    ids = [f"{letter}{n}" for letter in "ph" for n in range(1, 5)]
    write_lines(root / "raw/meta_categories/meta_Pens.jsonl", [product(id) for id in ids])
    write_lines(root / "amazon_c4/sampled_item_metadata_1M.jsonl", [item("p1", "Pool text")])
    with (root / "amazon_c4/test.csv").open("w", newline="") as file:
        rows = [[n, f"a pen for u{n}", f"p{n}", f"u{n}", 5, f"Review {n}"] for n in range(1, 5)]
        header = ["qid", "query", "item_id", "user_id", "ori_rating", "ori_review"]
        csv.writer(file).writerows([header, *rows])
    return root


def load(root: Path, category: str = "Pens") -> Benchmark:
    steps = make_steps(root)
    settings = BenchmarkSettings(category, 20, 120, 0, "authors")
    return build_benchmark(steps, authors_store(steps, root, category, "c4_1m"), settings)


def test_splits_and_histories_are_kept_as_they_are_given(tmp_path: Path):
    history = {
        "Pens": [["h2", NOON + DAY, True], ["h1", NOON, False], ["p1", NOON, True]],
        "Inks & Papers": [["h3", NOON - DAY, True], ["h3", NOON - DAY, True]],
    }
    root = write_store(
        tmp_path / "data", train=[entry(1, history)], dev=[entry(2), entry(4)], test=[entry(3)]
    )
    benchmark = load(root)
    ids = {split.value: [q.id for q in queries] for split, queries in benchmark.queries.items()}
    assert ids == {"train": ["1"], "dev": ["2", "4"], "test": ["3"]}
    (query,) = benchmark.queries[Split.train]
    assert (query.text, query.user_id, query.positive_id) == ("a pen for u1", "u1", "p1")
    assert query.timestamp == NOON + DAY + 1  # after the last purchase: the files give none
    one = benchmark.histories["1"]
    assert [(p.product.id, p.timestamp) for p in one.within] == [("h1", NOON), ("h2", NOON + DAY)]
    assert [(p.product.id, p.timestamp) for p in one.cross] == [("h3", NOON - DAY)]
    assert one.within[0].product.title == "Title of h1"
    counts = benchmark.counts
    assert counts["purchases_read"] == 5 + 3
    assert counts["purchases_that_are_the_positive"] == 1
    assert counts["queries_given_in_dev"] == 2


def test_what_does_not_fit_test_csv_is_counted(tmp_path: Path):
    moved = entry(1, pos_product="p4")
    repeated_user = entry(3, user_id="u2")
    root = write_store(tmp_path / "data", train=[moved], dev=[entry(2)], test=[repeated_user])
    counts = load(root).counts
    assert counts["queries_unlike_test_csv"] == 2
    assert counts["users_in_two_splits"] == 1


def test_category_names_with_spaces_and_ampersands_are_the_same_category(tmp_path: Path):
    history = {"Pens & Inks": [["h1", NOON, True]], "Pens_and_Inks": [["h2", NOON, True]]}
    lines = [entry(n, history, pos_product_category="Pens & Inks") for n in (1, 2, 3)]
    root = write_store(tmp_path / "data", train=lines[:1], dev=lines[1:2], test=lines[2:])
    benchmark = load_as(root, "Pens_and_Inks")
    assert [p.product.id for p in benchmark.histories["1"].within] == ["h1", "h2"]


def load_as(root: Path, name: str) -> Benchmark:
    """Loads after renaming the folder of Pens."""
    (root / FOLDER / "Pens").rename(root / FOLDER / name)
    return load(root, name)


FAULTS = {
    "unknown query": ([entry(9)], "query 9 is not in test.csv"),
    "query twice": ([entry(1), entry(1)], "query 1 is there twice"),
    "no history": ([entry(1, grouped_purchase_history=None)], "of query 1 is missing or no object"),
    "list": ([entry(1, grouped_purchase_history=[1])], "of query 1 is missing or no object"),
    "no time": ([entry(1, {"Pens": [["h1"]]})], r'of query 1 holds \["h1"\]'),
    "text as time": ([entry(1, {"Pens": [["h1", "x", True]]})], "of query 1 holds"),
    "no id": ([entry(1, user_id=None)], r"train.jsonl:1: the field 'user_id' must be a string"),
    "no number": ([entry(1, query="one")], r"train.jsonl:1: the field 'query' must be an integer"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(tmp_path: Path, fault: str):
    lines, message = FAULTS[fault]
    root = write_store(tmp_path / "data", train=lines, dev=[entry(2)], test=[entry(3)])
    with pytest.raises(DataError, match=message):
        load(root)


def test_missing_files_and_categories_are_named(tmp_path: Path):
    root = write_store(tmp_path / "data", train=[entry(1)], dev=[entry(2)], test=[entry(3)])
    with pytest.raises(DataError, match=r"Inks: missing; .*\(Pens\)"):
        load(root, "Inks")
    (root / FOLDER / "Pens" / "dev.jsonl").unlink()
    with pytest.raises(DataError, match=r"lacks dev\.jsonl"):
        load(root)
