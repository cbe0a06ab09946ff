"""Writes a shop in the layout and field sets of Amazon-Reviews-2023 and Amazon-C4."""

import csv
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from memrerank.data.demo.catalogue import Item
from memrerank.data.demo.settings import DemoSettings
from memrerank.data.demo.shop import Sale, Shop, run_shop
from memrerank.data.demo.vocabulary import BEAUTY, ELECTRONICS, OTHER_CATEGORIES
from memrerank.errors import DataError
from memrerank.seeding import numpy_generator

STAMP = "demo_store.json"  # written last: its presence says that the store is whole
CATEGORIES = (ELECTRONICS, BEAUTY, *OTHER_CATEGORIES)
QUERY_FIELDS = ("qid", "query", "item_id", "user_id", "ori_rating", "ori_review")

REVIEWS: dict[int, tuple[tuple[str, str], ...]] = {
    5: (
        ("Five Stars", "Works just as described. Very happy with it."),
        ("Love it", "Exactly what I was hoping for, and it came quickly."),
        ("Would buy again", "My second one from this brand. No complaints at all."),
        ("Perfect", "Use it nearly every day and it has held up well."),
        ("Great purchase", "Better than the one it replaced. Recommended."),
    ),
    4: (
        ("Good value", "Does its job. The box was a bit damaged when it arrived."),
        ("Four Stars", "Nice quality, though the instructions could be better."),
        ("Pretty good", "I like it. Slightly smaller than I thought from the picture."),
    ),
    3: (
        ("It's okay", "Does what it should, nothing more."),
        ("Three Stars", "Not bad, but I had expected a little more for the price."),
    ),
}
RATING_SHARES = {5: 0.6, 4: 0.3, 3: 0.1}


def write_demo_store(root: Path, settings: DemoSettings) -> None:
    """Writes the demo store into `root`, unless the same store is there already.

    The store is written beside `root` and renamed into place: a killed run leaves none.

    Raises:
        DataError: `root` holds something that is not a demo store.
    """
    if _stamp(root) == settings.fingerprint:
        return
    if root.exists() and any(root.iterdir()) and _stamp(root) is None:
        raise DataError(
            f"{root} holds files that are no demo store; point data.root at an empty folder, "
            "or set data=amazon2023 to read what is there"
        )
    root.parent.mkdir(parents=True, exist_ok=True)
    temporary = root.with_name(f".{root.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        _write_shop(temporary, run_shop(settings), settings)
        (temporary / STAMP).write_text(json.dumps({"fingerprint": settings.fingerprint}) + "\n")
        _move_into_place(temporary, root, settings)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move_into_place(temporary: Path, root: Path, settings: DemoSettings) -> None:
    """Renames the store; where another process has just put the same one there, that one stays."""
    if _stamp(root) == settings.fingerprint:
        return
    shutil.rmtree(root, ignore_errors=True)
    try:
        temporary.replace(root)
    except OSError:
        if _stamp(root) != settings.fingerprint:
            raise


def _stamp(root: Path) -> str | None:
    """The fingerprint of the store in `root`; None where there is no whole store."""
    try:
        stamp = json.loads((root / STAMP).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return str(stamp.get("fingerprint")) if isinstance(stamp, dict) else None


def _write_shop(root: Path, shop: Shop, settings: DemoSettings) -> None:
    rng = numpy_generator(settings.seed, "demo", "files")
    reviews = [_review(rng, sale) for sale in shop.sales]
    metas = [_meta(rng, item) for item in shop.items]
    for category in CATEGORIES:
        _write_lines(
            root / "raw" / "review_categories" / f"{category}.jsonl",
            (r for r, s in zip(reviews, shop.sales, strict=True) if s.item.category == category),
        )
        _write_lines(
            root / "raw" / "meta_categories" / f"meta_{category}.jsonl",
            (m for m, i in zip(metas, shop.items, strict=True) if i.category == category),
        )
    c4 = root / "amazon_c4"
    _write_lines(c4 / "sampled_item_metadata_1M.jsonl", map(_pool_item, shop.items))
    by_sale = {id(sale): review for sale, review in zip(shop.sales, reviews, strict=True)}
    order = rng.permutation(len(shop.searches))
    _write_queries(
        c4 / "test.csv",
        [
            {
                "qid": number,
                "query": search.text,
                "item_id": search.sale.item.id,
                "user_id": search.sale.user_id,
                "ori_rating": int(by_sale[id(search.sale)]["rating"]),
                "ori_review": "{title} {text}".format(**by_sale[id(search.sale)]),
            }
            for number, search in enumerate(shop.searches[i] for i in order)
        ],
    )


def _review(rng: np.random.Generator, sale: Sale) -> dict[str, Any]:
    rating = int(rng.choice(list(RATING_SHARES), p=list(RATING_SHARES.values())))
    title, text = REVIEWS[rating][int(rng.integers(len(REVIEWS[rating])))]
    return {
        "rating": float(rating),
        "title": title,
        "text": text,
        "images": [],
        "asin": sale.item.id,
        "parent_asin": sale.item.id,
        "user_id": sale.user_id,
        "timestamp": sale.timestamp,
        "helpful_vote": int(rng.poisson(0.3)),
        "verified_purchase": True,
    }


def _meta(rng: np.random.Generator, item: Item) -> dict[str, Any]:
    label = item.category.replace("_and_", " & ").replace("_", " ")
    return {
        "main_category": label,
        "title": item.title,
        "average_rating": round(float(rng.uniform(3.6, 4.9)), 1),
        "rating_number": int(rng.lognormal(4.5, 1.2)) + 1,
        "features": list(item.features),
        "description": [item.description],
        "price": item.price,
        "images": [],
        "videos": [],
        "store": item.brand_name,
        "categories": [label, item.noun],
        "details": {"Brand": item.brand_name},
        "parent_asin": item.id,
        "bought_together": None,
    }


def _pool_item(item: Item) -> dict[str, str]:
    return {
        "item_id": item.id,
        "category": item.category,
        "metadata": f"{item.title}. {item.description}",
    }


def _write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _write_queries(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, QUERY_FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
