"""The benchmark that the paper's authors published, joined to Amazon's metadata.

    amazon-c4-user-purchase-history/{category}/{train,dev,test}.jsonl

A line holds a query (its qid in Amazon-C4's test.csv), its user, its positive, and the history:
`{category: [[product, milliseconds, verified], ...]}`. Splits and histories are kept as they are.
"""

from collections.abc import Mapping
from pathlib import Path

import duckdb

from memrerank.categories import label_of
from memrerank.data.amazon.files import find_metadata, require_c4
from memrerank.data.amazon.store import add_counts, describe_products, read_items, read_queries
from memrerank.data.engine import copy, literal, read_sql, view
from memrerank.data.raw import RawStore
from memrerank.data.readers import Kind, read_rows
from memrerank.data.steps import Artifact, Steps
from memrerank.errors import DataError
from memrerank.schema import Split

FOLDER = "amazon-c4-user-purchase-history"
SUFFIXES = (".jsonl", ".jsonl.gz")
FIELDS = {
    "user_id": Kind.text,
    "query": Kind.integer,
    "pos_product": Kind.text,
    "pos_product_category": Kind.text,
}
HISTORY = "grouped_purchase_history"


def authors_folder(root: Path) -> Path:
    """Where the authors' files lie: in a folder of the data root, or the root itself."""
    return root / FOLDER if (root / FOLDER).is_dir() else root


def find_authors_files(root: Path, category: str) -> dict[str, dict[Split, Path]]:
    """The files by category and split, of all categories that are whole.

    Raises:
        DataError: a file of `category` is missing.
    """
    folder = authors_folder(root)
    found = {}
    for place in sorted(path for path in folder.glob("*") if path.is_dir()):
        files = {split: _find(place / split.value) for split in Split}
        if all(files.values()):
            found[place.name] = {split: path for split, path in files.items() if path}
        elif place.name == category:
            missing = ", ".join(f"{split.value}.jsonl" for split in Split if not files[split])
            raise DataError(f"{place} lacks {missing}; fetch the benchmark again")
    if category not in found:
        raise DataError(
            f"{folder / category}: missing; set data.root= to the folder that holds {FOLDER}, let "
            "data.download=true fetch it, or choose a category= that is there "
            f"({', '.join(map(label_of, found)) or 'none is'})"
        )
    return found


def _find(stem: Path) -> Path | None:
    places = (stem.with_name(stem.name + suffix) for suffix in SUFFIXES)
    return next((path for path in places if path.is_file()), None)


def authors_store(steps: Steps, root: Path, category: str, corpus: str) -> RawStore:
    """Reads the authors' files and joins them to query texts and metadata.

    Raises:
        DataError: a file is missing or at fault, or names a query that test.csv does not have.
    """
    queries_file, items_file = require_c4(root)
    queries = read_queries(steps, queries_file)
    rows = [
        read_split(steps, name, split, path)
        for name, files in find_authors_files(root, category).items()
        for split, path in files.items()
    ]
    found = {
        "queries": queries,
        "items": read_items(steps, items_file),
        "targets": find_targets(steps, queries, rows),
        "purchases": find_purchases_before(steps, rows),
    }
    products, counts = describe_products(steps, found, find_metadata(root), category, corpus)
    read = add_counts([queries, found["targets"], found["purchases"], found["items"], *rows])
    return RawStore(found["targets"], found["purchases"], products, {**read, **counts})


def read_split(steps: Steps, category: str, split: Split, path: Path) -> Artifact:
    """query_id, user_id, positive_id, category, split, history (JSON) of one file."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        number = read_rows(connection, "rows", [path], FIELDS, optional=(HISTORY,))
        query = f"""
            SELECT CAST("query" AS VARCHAR) AS query_id, user_id, pos_product AS positive_id,
                   {CATEGORY_NAME.format("pos_product_category")} AS category,
                   {literal(split.value)} AS split, {HISTORY} AS history
            FROM rows ORDER BY query_id"""
        copy(connection, query, out)
        faults = connection.execute(
            f"""SELECT CAST("query" AS VARCHAR) FROM rows
                WHERE coalesce(json_type({HISTORY}), '') <> 'OBJECT' ORDER BY 1"""
        ).fetchall()
        if faults:
            raise DataError(
                f"{path}: {HISTORY} of query {faults[0][0]} is missing or no object "
                f"({len(faults)} such rows); it must map categories to lists of purchases"
            )
        return {f"queries_given_in_{split.value}": number}

    return steps.run(f"authors-{category}-{split.value}", {"file": steps.source(path)}, build)


# "Beauty & Personal Care" and "Beauty_and_Personal_Care" are one category.
CATEGORY_NAME = "regexp_replace(replace({}, '&', 'and'), '[^A-Za-z0-9]+', '_', 'g')"


def find_purchases_before(steps: Steps, rows: list[Artifact]) -> Artifact:
    """The purchases of RawStore, out of the histories that were published."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        view(connection, "rows", [one.path for one in rows])
        connection.execute(f"CREATE TEMP TABLE events AS {read_sql('authors_events')}")
        faults = connection.execute(
            """SELECT query_id, CAST(event AS VARCHAR) FROM events
               WHERE coalesce(product_id, '') = '' OR timestamp IS NULL ORDER BY 1"""
        ).fetchall()
        if faults:
            raise DataError(
                f"{HISTORY} of query {faults[0][0]} holds {faults[0][1]} ({len(faults)} such "
                "entries); an entry must be [product, milliseconds, verified]"
            )
        name = CATEGORY_NAME.format("bought_in")
        copy(
            connection,
            f"""SELECT query_id, category, product_id, timestamp,
                       bool_or({name} = category) AS within
                FROM events WHERE product_id <> positive_id GROUP BY ALL
                ORDER BY query_id, category, timestamp, product_id""",
            out,
        )
        ((given, positives),) = connection.execute(
            "SELECT count(*), count(*) FILTER (product_id = positive_id) FROM events"
        ).fetchall()
        return {"purchases_read": given, "purchases_that_are_the_positive": positives}

    return steps.run("authors-purchases", {"rows": [one.sha256 for one in rows]}, build)


def find_targets(steps: Steps, queries: Artifact, rows: list[Artifact]) -> Artifact:
    """The targets of RawStore. The files give no time of the positive's purchase: it stands one
    millisecond after the last purchase before it."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        view(connection, "rows", [one.path for one in rows])
        view(connection, "queries", [queries.path])
        unknown = connection.execute(
            "SELECT query_id FROM rows WHERE query_id NOT IN (SELECT query_id FROM queries)"
        ).fetchall()
        repeated = connection.execute(
            "SELECT query_id FROM rows GROUP BY query_id, category HAVING count(*) > 1 ORDER BY 1"
        ).fetchall()
        for faults, what in ((unknown, "is not in test.csv"), (repeated, "is there twice")):
            if faults:
                raise DataError(
                    f"{FOLDER}: query {faults[0][0]} {what} ({len(faults)} such queries); the two "
                    "do not belong together: fetch both again"
                )
        connection.execute(f"CREATE TEMP TABLE events AS {read_sql('authors_events')}")
        copy(
            connection,
            """SELECT query_id, text, rows.user_id, positive_id AS product_id, rows.category,
                      coalesce(last + 1, 0) AS timestamp, split, review
               FROM rows JOIN queries USING (query_id)
               LEFT JOIN (SELECT query_id, category, max(timestamp) AS last FROM events
                          GROUP BY ALL) before USING (query_id, category)
               ORDER BY query_id, rows.category""",
            out,
        )
        ((differing, users),) = connection.execute(
            """SELECT count(*) FILTER (rows.user_id <> queries.user_id
                                       OR positive_id <> queries.product_id),
                      (SELECT count(*) FROM (SELECT user_id FROM rows GROUP BY user_id
                                             HAVING count(DISTINCT split) > 1))
               FROM rows JOIN queries USING (query_id)"""
        ).fetchall()
        return {"queries_unlike_test_csv": differing, "users_in_two_splits": users}

    inputs = {"queries": queries.sha256, "rows": [one.sha256 for one in rows]}
    return steps.run("authors-targets", inputs, build)
