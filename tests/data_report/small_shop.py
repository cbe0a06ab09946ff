"""A benchmark of four queries by hand, with the raw store behind it.

Before filters the purchases of Pens are 3, 1, 0, 0 within and 1, 6, 0, 1 across.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from memrerank.data.corpus import Corpus
from memrerank.data.prepared import PreparedData
from memrerank.data.raw import RawStore
from memrerank.data.steps import Artifact
from memrerank.schema import Benchmark, History, Pool, Product, Purchase, Query, Split
from memrerank.storage import file_sha256

USERS = ("shopper-ann", "shopper-bob", "shopper-cat")
PRODUCTS = [
    Product(f"p{number:02}", f"plain pen {number}", "blue ink" if number < 7 else "", "Pens")
    for number in range(9)
] + [Product("p09", "Zebrano fountain pen", "", "Pens")]
QUERIES = {
    "q1": ("a pen for letters", USERS[0], "p00", Split.train),
    "q4": ("the zebrano pen, please", USERS[0], "p09", Split.train),
    "q2": ("it writes so well and never dries out", USERS[1], "p01", Split.dev),
    "q3": ("something for school", USERS[2], "p02", Split.test),
}
REVIEWS = {"q2": "Lovely! It writes so well and never smudges.", "q3": "Fine."}
BOUGHT = {  # (query, category): within, cross
    ("q1", "Pens"): (3, 1),
    ("q2", "Pens"): (1, 6),
    ("q4", "Pens"): (0, 1),
    ("q1", "Inks"): (1, 3),
}
COUNTS = {"queries_in_file": 1234, "products_cut_at_max_words": 2, "words_cut_at_max_words": 9}
RANKS = {"q1": 1, "q4": 6, "q2": None, "q3": 10}  # of the positive in the pool


def query(id: str) -> Query:
    text, user, positive, _ = QUERIES[id]
    return Query(id, text, user, positive, "Pens", 100)


def pool(id: str, size: int = 10) -> Pool:
    """A pool in the order of the products' ids, the positive moved to its rank or left out."""
    positive, rank = QUERIES[id][2], RANKS[id]
    ids = [product.id for product in PRODUCTS if product.id != positive]
    if rank is not None:
        ids.insert(rank - 1, positive)
    return Pool(id, "bm25", tuple(ids[:size]))


def pools(size: int = 10) -> dict[str, Pool]:
    return {id: pool(id, size) for id in QUERIES}


def history(id: str, within: int, cross: int) -> History:
    bought = [Purchase(product, 1) for product in PRODUCTS]
    return History(QUERIES[id][1], "Pens", tuple(bought[:within]), tuple(bought[:cross]))


def benchmark() -> Benchmark:
    return Benchmark(
        category="Pens",
        queries={
            split: tuple(query(id) for id in QUERIES if QUERIES[id][3] is split) for split in Split
        },
        histories={
            "q1": history("q1", 2, 1),  # one was over the cap
            "q2": history("q2", 1, 6),
            "q3": history("q3", 0, 0),
            "q4": history("q4", 0, 1),
        },
        corpus=Corpus.of(PRODUCTS),
        counts=COUNTS,
        fingerprint="f" * 64,
    )


def artifact(path: Path, rows: list[dict[str, object]], made: bool) -> Artifact:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return Artifact(path, file_sha256(path), {}, made)


def write_raw(folder: Path) -> RawStore:
    inks = ("q1", "Inks")
    targets = [
        {
            "query_id": id,
            "text": QUERIES[id][0],
            "user_id": QUERIES[id][1],
            "product_id": QUERIES[id][2],
            "category": category,
            "timestamp": 100,
            "split": QUERIES[id][3].value,
            "review": REVIEWS.get(id),
        }
        for id, category in [*((id, "Pens") for id in QUERIES), inks]
    ]
    purchases = [
        {"query_id": id, "category": category, "product_id": "p03", "timestamp": n, "within": side}
        for (id, category), counts in BOUGHT.items()
        for side, count in zip((True, False), counts, strict=True)
        for n in range(count)
    ]
    return RawStore(
        targets=artifact(folder / "targets.parquet", targets, made=True),
        purchases=artifact(folder / "purchases.parquet", purchases, made=False),
        products=artifact(folder / "products.parquet", [{"id": "p00"}], made=False),
    )


def prepared(folder: Path) -> PreparedData:
    raw = write_raw(folder)
    return PreparedData(
        benchmark(),
        raw,
        sources={"amazon/test.csv": "a" * 64},
        steps={"targets": raw.targets, "purchases": raw.purchases},
    )
