"""Amazon-Reviews-2023 and Amazon-C4 as a RawStore: one step a file, then the joins.

A file's step keeps only what the queries need of it, so that a file is read once, whatever
category is chosen later, and a killed run repeats at most the file that it was in.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import duckdb

from memrerank.data.amazon.files import StoreFiles
from memrerank.data.engine import copy, literal, read_sql, view
from memrerank.data.raw import RawStore
from memrerank.data.readers import Kind, read_rows
from memrerank.data.readers.delimited import numbered_rows
from memrerank.data.steps import Artifact, Steps
from memrerank.errors import DataError

QUERY_FIELDS = dict.fromkeys(("qid", "query", "item_id", "user_id"), Kind.text)
PURCHASE_FIELDS = {
    "user_id": Kind.text,
    "parent_asin": Kind.text,
    "timestamp": Kind.milliseconds,
}
ITEM_FIELDS = dict.fromkeys(("item_id", "category", "metadata"), Kind.text)
METADATA_FIELDS = {"parent_asin": Kind.text, "title": Kind.text}
METADATA_TEXTS = ("description", "features", "details")


def amazon_store(steps: Steps, files: StoreFiles, category: str, corpus: str) -> RawStore:
    """Reads and joins the files.

    Args:
        category: whose products are the corpus under `corpus="category"`.
        corpus: `c4_1m`, `category` or `all`.

    Raises:
        DataError: a file cannot be read, or a line of it is at fault.
    """
    queries = read_queries(steps, files.queries)
    bought = [read_purchases(steps, *one, queries) for one in files.purchases.items()]
    targets = find_targets(steps, queries, bought)
    found = {
        "queries": queries,
        "items": read_items(steps, files.items),
        "targets": targets,
        "purchases": purchases_before(steps, targets, bought),
    }
    products, counts = describe_products(steps, found, files.metadata, category, corpus)
    return RawStore(
        targets=targets,
        purchases=found["purchases"],
        products=products,
        counts={**add_counts([queries, targets, found["items"], *bought]), **counts},
    )


def describe_products(
    steps: Steps,
    found: Mapping[str, Artifact],
    metadata: Mapping[str, Sequence[Path]],
    category: str,
    corpus: str,
) -> tuple[Artifact, Mapping[str, int]]:
    """The products of RawStore, and what was counted on the way.

    Args:
        found: the artifacts `queries`, `items`, `targets` and `purchases`.
        metadata: the files of each category.
    """
    wanted = find_wanted(steps, found)
    described = []
    for name, paths in metadata.items():
        everything = corpus == "all" or (corpus == "category" and name == category)
        described.append(read_metadata(steps, name, paths, None if everything else wanted))
    products = join_products(steps, {**found, "wanted": wanted}, described, category, corpus)
    return products, add_counts([*described, products])


def read_queries(steps: Steps, path: Path) -> Artifact:
    """query_id, text, user_id, product_id, review of Amazon-C4's test.csv, by query."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        rows = read_rows(connection, "rows", [path], QUERY_FIELDS, optional=("ori_review",))
        _check_any(rows, [path])
        _check_unique(connection, path)
        copy(
            connection,
            """SELECT qid AS query_id, query AS text, user_id, item_id AS product_id,
                      ori_review ->> '$' AS review FROM rows ORDER BY qid""",
            out,
        )
        return {"queries_in_file": rows}

    return steps.run("queries", {"file": steps.source(path)}, build)


def _check_any(rows: int, paths: Sequence[Path]) -> None:
    """Raises DataError where files have no row at all: none of Amazon's is like that."""
    if not rows:
        what = paths[0] if len(paths) == 1 else paths[0].parent
        raise DataError(f"{what} is empty: it has no rows; fetch it again")


def _check_unique(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raises DataError where a qid is there twice, with the line of the second."""
    ((repeated,),) = connection.execute(
        "SELECT count(*) FROM (SELECT qid FROM rows GROUP BY qid HAVING count(*) > 1)"
    ).fetchall()
    if not repeated:
        return
    seen: set[str] = set()
    for number, row in numbered_rows(path):
        if row["qid"] in seen:
            raise DataError(
                f"{path}:{number}: the qid {row['qid']} appears a second time "
                f"(qids repeated: {repeated}); each query needs one of its own"
            )
        seen.add(row["qid"])


def read_purchases(steps: Steps, category: str, path: Path, queries: Artifact) -> Artifact:
    """user_id, product_id, timestamp, category of what the queries' users bought."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        view(connection, "queries", [queries.path])
        where = "user_id IN (SELECT user_id FROM queries)"
        rows = read_rows(connection, "rows", [path], PURCHASE_FIELDS, where=where)
        _check_any(rows, [path])
        copy(
            connection,
            f"""SELECT DISTINCT user_id, parent_asin AS product_id, timestamp,
                       {literal(category)} AS category
                FROM rows ORDER BY user_id, timestamp, product_id""",
            out,
        )
        return {"purchases_read": rows, "purchases_read_twice": _lost(connection, "rows", out)}

    inputs = {"file": steps.source(path), "queries": queries.sha256}
    return steps.run(f"bought-{category}", inputs, build)


def read_items(steps: Steps, path: Path) -> Artifact:
    """item_id, category, text of Amazon-C4's item pool, by item."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        rows = read_rows(connection, "rows", [path], ITEM_FIELDS)
        _check_any(rows, [path])
        copy(
            connection,
            """SELECT item_id, min(category) AS category, min(metadata) AS text
               FROM rows GROUP BY item_id ORDER BY item_id""",
            out,
        )
        return {"items_read": rows, "items_repeated": _lost(connection, "rows", out)}

    return steps.run("items", {"file": steps.source(path)}, build)


def find_targets(steps: Steps, queries: Artifact, bought: list[Artifact]) -> Artifact:
    """The targets of RawStore: queries with a category and a time."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        view(connection, "queries", [queries.path])
        view(connection, "bought", [one.path for one in bought])
        copy(connection, read_sql("amazon_targets"), out)
        view(connection, "targets", [out])
        ((unmatched,),) = connection.execute(
            "SELECT count(*) FROM queries WHERE query_id NOT IN (SELECT query_id FROM targets)"
        ).fetchall()
        return {"queries_without_a_matching_review": unmatched}

    inputs = {"queries": queries.sha256, "bought": [one.sha256 for one in bought]}
    return steps.run("targets", inputs, build)


def purchases_before(steps: Steps, targets: Artifact, bought: list[Artifact]) -> Artifact:
    """The purchases of RawStore, out of all that the users bought."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> None:
        view(connection, "targets", [targets.path])
        view(connection, "bought", [one.path for one in bought])
        copy(connection, read_sql("purchases_before"), out)

    inputs = {"targets": targets.sha256, "bought": [one.sha256 for one in bought]}
    return steps.run("purchases", inputs, build)


def find_wanted(steps: Steps, found: Mapping[str, Artifact]) -> Artifact:
    """The ids of all products that the item pool, a query or a history may need."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> None:
        for name, artifact in found.items():
            view(connection, name, [artifact.path])
        copy(connection, read_sql("amazon_wanted"), out)

    inputs = {name: found[name].sha256 for name in ("items", "queries", "purchases")}
    return steps.run("wanted", inputs, build)


def join_products(
    steps: Steps,
    found: Mapping[str, Artifact],
    metadata: Sequence[Artifact],
    category: str,
    corpus: str,
) -> Artifact:
    """The products of RawStore: what is wanted, with the metadata that there is of it."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        for name, artifact in found.items():
            view(connection, name, [artifact.path])
        view(connection, "metadata", [one.path for one in metadata])
        connection.execute(f"SET VARIABLE category = {literal(category)}")
        connection.execute(f"SET VARIABLE corpus = {literal(corpus)}")
        copy(connection, read_sql("amazon_products"), out)
        return _count_repeated(connection, "metadata")  # those that several categories describe

    inputs = {
        **{name: artifact.sha256 for name, artifact in found.items()},
        "metadata": [one.sha256 for one in metadata],
        "corpus": corpus,
        "category": category if corpus == "category" else None,
    }
    return steps.run("products", inputs, build)


def read_metadata(
    steps: Steps, category: str, paths: Sequence[Path], wanted: Artifact | None
) -> Artifact:
    """parent_asin, title, the JSON texts and category of the products wanted; None: of all."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        where = "TRUE"
        if wanted is not None:
            view(connection, "wanted", [wanted.path])
            where = "parent_asin IN (SELECT id FROM wanted)"
        rows = read_rows(
            connection,
            "described",
            paths,
            METADATA_FIELDS,
            optional=METADATA_TEXTS,
            nullable=("title",),
            where=where,
        )
        _check_any(rows, paths)
        query = f"SELECT *, {literal(category)} AS category FROM ({read_sql('amazon_metadata')})"
        copy(connection, query, out)
        return {"products_read": rows, **_count_repeated(connection, "described")}

    inputs = {
        "files": [steps.source(path) for path in paths],
        "wanted": None if wanted is None else wanted.sha256,
    }
    return steps.run(f"metadata-{category}", inputs, build)


def _count_repeated(connection: duckdb.DuckDBPyConnection, table: str) -> Mapping[str, int]:
    """Descriptions of a product beyond its first, and the products whose titles differ."""
    ((again, titles),) = connection.execute(
        f"""WITH repeated AS (
                SELECT parent_asin, count(*) AS n FROM {table} GROUP BY ALL HAVING n > 1),
            differing AS (
                SELECT parent_asin FROM {table} JOIN repeated USING (parent_asin)
                GROUP BY ALL HAVING count(DISTINCT nullif(trim(title), '')) > 1)
            SELECT (SELECT coalesce(sum(n - 1), 0) FROM repeated),
                   (SELECT count(*) FROM differing)"""
    ).fetchall()
    return {"products_described_twice": int(again), "products_with_two_titles": titles}


def _lost(connection: duckdb.DuckDBPyConnection, table: str, out: Path) -> int:
    """How many rows of a table are not in the file that was made of it."""
    ((lost,),) = connection.execute(
        f"SELECT (SELECT count(*) FROM {table}) - (SELECT count(*) FROM read_parquet(?))",
        [str(out)],
    ).fetchall()
    return int(lost)


def add_counts(artifacts: Iterable[Artifact]) -> Counter[str]:
    """What several steps counted, added up by name."""
    totals: Counter[str] = Counter()
    for artifact in artifacts:
        totals.update(artifact.counts)
    return totals
