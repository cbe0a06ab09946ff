"""The joins behind a benchmark, in DuckDB: queries with a purchase time, and what came before."""

from collections import Counter
from typing import NamedTuple

import duckdb

from memrerank.data import amazon
from memrerank.errors import DataError
from memrerank.schema import Query

# A query belongs to the category in which its user reviewed its product; the first review dates it.
TARGETS = """
    CREATE OR REPLACE TEMP TABLE targets AS
    SELECT query_id, text, q.user_id, item_id, min(timestamp) AS timestamp
    FROM queries q JOIN reviews r ON q.user_id = r.user_id AND q.item_id = r.parent_asin
    WHERE r.category = ? GROUP BY ALL
"""
# What the user of a target bought strictly before it, once per product and time.
PURCHASES = """
    CREATE OR REPLACE TEMP TABLE purchases AS
    SELECT query_id, parent_asin AS product_id, r.timestamp, bool_or(r.category = ?) AS within
    FROM targets t JOIN reviews r USING (user_id)
    WHERE r.timestamp < t.timestamp AND r.parent_asin <> t.item_id
    GROUP BY ALL
"""
# Every product that the corpus or a history may need. All positives, not only those of one
# category: the corpus is then the same for every category.
WANTED = """
    SELECT item_id AS id FROM items UNION SELECT item_id FROM queries
    UNION SELECT product_id FROM purchases
"""
PRODUCTS = f"""
    SELECT id, coalesce(m.category, i.category, '') AS category, m.title, m.description,
           m.features, m.details, i.metadata AS item_text, m.parent_asin IS NOT NULL AS described,
           i.item_id IS NOT NULL AS in_items, id IN (SELECT item_id FROM queries) AS is_positive
    FROM ({WANTED})
    LEFT JOIN metadata m ON m.parent_asin = id
    LEFT JOIN (SELECT item_id, min(category) AS category, min(metadata) AS metadata
               FROM items GROUP BY item_id) i ON i.item_id = id
    ORDER BY id
"""


class ProductRow(NamedTuple):
    """A product as the files tell it; the texts but `title` and `item_text` are JSON."""

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


class PurchaseRow(NamedTuple):
    """A purchase that lies before the target of a query."""

    query_id: str
    product_id: str
    timestamp: int
    within: bool


class RawBenchmark(NamedTuple):
    """What the files hold for one category, joined but not filtered."""

    queries: list[Query]
    purchases: list[PurchaseRow]  # by query, oldest first
    products: list[ProductRow]  # by id
    counts: Counter[str]


def read_raw(files: amazon.StoreFiles, category: str) -> RawBenchmark:
    """Reads and joins the files in DuckDB."""
    with duckdb.connect() as connection:
        amazon.read_queries(connection, files)
        amazon.read_reviews(connection, files)
        amazon.read_items(connection, files)
        connection.execute(TARGETS, [category])
        connection.execute(PURCHASES, [category])
        amazon.read_metadata(connection, files, WANTED)
        targets = connection.execute("SELECT * FROM targets ORDER BY query_id").fetchall()
        purchases = connection.execute(
            "SELECT * FROM purchases ORDER BY query_id, timestamp, product_id"
        ).fetchall()
        products = connection.execute(PRODUCTS).fetchall()
        counts = _count_queries(connection)
    if not targets:
        raise DataError(
            f"no query of category {category}: {files.queries} has {counts['queries_in_file']} "
            f"queries, and for none of them {files.reviews[category]} holds a review of its "
            "item_id by its user_id; choose another category="
        )
    return RawBenchmark(
        [
            Query(id, " ".join(text.split()), user, item, category, time)
            for id, text, user, item, time in targets
        ],
        [PurchaseRow(*row) for row in purchases],
        [ProductRow(*row) for row in products],
        counts,
    )


def _count_queries(connection: duckdb.DuckDBPyConnection) -> Counter[str]:
    in_file, reviewed, targets = connection.execute(
        """SELECT count(*), count(*) FILTER (
               (user_id, item_id) IN (SELECT (user_id, parent_asin) FROM reviews)),
               (SELECT count(*) FROM targets) FROM queries"""
    ).fetchall()[0]
    return Counter(
        {
            "queries_in_file": in_file,
            "queries_without_a_matching_review": in_file - reviewed,
            "queries_of_other_categories": reviewed - targets,
            "queries_of_the_category": targets,
        }
    )
