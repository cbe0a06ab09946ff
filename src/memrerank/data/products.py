"""Products with their texts: the last two steps of the data, and what they count."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from memrerank.data.corpus import Corpus, write_corpus
from memrerank.data.engine import view
from memrerank.data.steps import Artifact, Steps
from memrerank.data.text import product_text
from memrerank.schema import Product

BATCH = 16_384  # rows in memory at once
PROGRESS_FROM = 200_000  # products; fewer take seconds
TEXT_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),  # empty: the product has no text
        ("description", pa.string()),
        ("category", pa.string()),
        ("described", pa.bool_()),
        ("in_corpus", pa.bool_()),
    ]
)
COLUMNS = """id, category, title, description, features, details, item_text, described, in_items,
             is_positive, in_corpus"""


class ProductRow(NamedTuple):
    """A product as the sources tell it; the texts but `title` and `item_text` are JSON."""

    id: str
    category: str
    title: str | None
    description: str | None
    features: str | None
    details: str | None
    item_text: str | None
    described: bool  # has a metadata record
    in_items: bool  # is in the item pool
    is_positive: bool  # answers a query of any category
    in_corpus: bool


def make_texts(steps: Steps, products: Artifact, max_words: int) -> Artifact:
    """The products' texts, cut at `max_words`, by id; see `TEXT_SCHEMA`."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        view(connection, "products", [products.path])
        counts: Counter[str] = Counter()
        ((total,),) = connection.execute("SELECT count(*) FROM products").fetchall()
        cursor = connection.execute(f"SELECT {COLUMNS} FROM products ORDER BY id")
        with (
            pq.ParquetWriter(out, TEXT_SCHEMA, compression="zstd") as writer,
            tqdm(total=total, desc="product texts", disable=total < PROGRESS_FROM) as bar,
        ):
            while rows := cursor.fetchmany(BATCH):
                bar.update(len(rows))
                made = [_text_row(ProductRow(*row), max_words, counts) for row in rows]
                columns = [list(column) for column in zip(*made, strict=True)]
                writer.write_table(pa.table(columns, schema=TEXT_SCHEMA))
        if not counts["products_in_the_item_pool"]:  # a store without one
            del counts["products_in_the_item_pool"], counts["positives_added_to_the_corpus"]
        return counts

    return steps.run("texts", {"products": products.sha256, "max_words": max_words}, build)


def _text_row(row: ProductRow, max_words: int, counts: Counter[str]) -> tuple[object, ...]:
    """One row of `TEXT_SCHEMA`: metadata with a title, else the item pool's own text."""
    title, description, cut = "", "", 0
    if row.title and row.title.strip():
        title, description, cut = product_text(
            row.title, row.description, row.features, row.details, max_words
        )
    elif row.item_text:
        title, _, cut = product_text(row.item_text, None, None, None, max_words)
        counts["products_with_item_pool_text"] += bool(title)
    searched = row.in_corpus and bool(title)
    counts["products_in_the_item_pool"] += row.in_items
    counts["positives_added_to_the_corpus"] += searched and row.is_positive and not row.in_items
    counts["products_in_the_corpus"] += searched
    counts["products_cut_at_max_words"] += cut > 0
    counts["words_cut_at_max_words"] += cut
    if not title:
        counts["products_without_a_title" if row.described else "products_without_metadata"] += 1
    return row.id, title, description, row.category, row.described, searched


def make_corpus(steps: Steps, texts: Artifact) -> Corpus:
    """The products that are searched, memory-mapped."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> None:
        view(connection, "texts", [texts.path])
        total = texts.counts["products_in_the_corpus"]
        products = _products(connection, "SELECT * FROM texts WHERE in_corpus ORDER BY id")
        write_corpus(out, tqdm(products, desc="corpus", total=total, disable=total < PROGRESS_FROM))

    artifact = steps.run("corpus", {"texts": texts.sha256}, build, suffix=".arrow")
    return Corpus.open(artifact.path, artifact.sha256)


def read_products(
    connection: duckdb.DuckDBPyConnection, query: str
) -> tuple[dict[str, Product], set[str]]:
    """Products with a text by id, and the ids of those that have a metadata record.

    Args:
        query: SQL that gives rows of `TEXT_SCHEMA`.
    """
    rows = connection.execute(f"SELECT id, described FROM ({query})").fetchall()
    products = {product.id: product for product in _products(connection, query) if product.title}
    return products, {id for id, described in rows if described}


def _products(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[Product]:
    cursor = connection.execute(f"SELECT id, title, description, category FROM ({query})")
    while rows := cursor.fetchmany(BATCH):
        for row in rows:
            yield Product(*row)
