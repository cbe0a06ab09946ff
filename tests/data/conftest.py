"""Small shops in the raw layout."""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from raw_records import COLUMNS, item, product, review, write_lines


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., Path]:
    """Writes a data root and returns it; each argument is a list of records."""

    def make(
        reviews: Mapping[str, Sequence[Any]],
        metadata: Mapping[str, Sequence[Any]],
        queries: Sequence[Sequence[str]],
        items: Sequence[Any],
    ) -> Path:
        root = tmp_path / "shop"
        for name, records in reviews.items():
            write_lines(root / "raw/review_categories" / f"{name}.jsonl", records)
        for name, records in metadata.items():
            write_lines(root / "raw/meta_categories" / f"meta_{name}.jsonl", records)
        write_lines(root / "amazon_c4/sampled_item_metadata_1M.jsonl", items)
        with (root / "amazon_c4/test.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows([*row, "5", 'They said "good",\nand it was.'] for row in queries)
        return root

    return make


@pytest.fixture
def three_shoppers(make_store: Callable[..., Path]) -> Path:
    """A sound store: three users, each with one query and one earlier purchase, in Pens."""
    users = ("u1", "u2", "u3")
    return make_store(
        reviews={"Pens": [review(u, p, t) for u in users for p, t in ((f"{u}a", 1), (f"{u}b", 2))]},
        metadata={"Pens": [product(f"{u}{side}") for u in users for side in "ab"]},
        queries=[(f"q-{u}", f"a pen for {u}", f"{u}b", u) for u in users],
        items=[item(f"{u}b", f"Pool text of {u}b") for u in users],
    )
