"""From three tables to a RawStore."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from memrerank.data.engine import connect, copy, literal, read_sql, view
from memrerank.data.raw import RawStore
from memrerank.data.steps import Artifact, Steps
from memrerank.data.table.columns import PRODUCTS, PURCHASES, QUERIES
from memrerank.data.table.loading import load_table
from memrerank.data.table.report import BrokenTableError, Violation, report
from memrerank.data.table.rules import find_violations, open_tables
from memrerank.errors import ConfigError, DataError

CORPORA = ("all", "category")
CATEGORIES_SHOWN = 20  # in the message about a category without queries


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Where the tables are.

    Args:
        root: the folder of the files.
        purchases, products, queries: file names under it.
        max_faults: rows shown of those that break a rule; all are counted.

    Raises:
        ConfigError: a setting is out of range.
    """

    root: Path
    purchases: str
    products: str
    queries: str
    max_faults: int

    def __post_init__(self) -> None:
        if self.max_faults < 1:
            raise ConfigError(f"data.max_faults={self.max_faults} will not do; set it to 1 or more")

    @property
    def files(self) -> dict[str, Path]:
        """The files by table."""
        return {
            PURCHASES: self.root / self.purchases,
            PRODUCTS: self.root / self.products,
            QUERIES: self.root / self.queries,
        }


def table_store(steps: Steps, settings: TableSettings, corpus: str, category: str) -> RawStore:
    """Reads, checks and joins the tables.

    Args:
        corpus: `all` products, or those of the `category`.

    Raises:
        ConfigError: `corpus` is Amazon's item pool, or a file's name does not tell its format.
        DataError: a rule is broken (the message says all that are), or the category has no query.
    """
    if corpus not in CORPORA:
        raise ConfigError(
            f"corpus={corpus} is Amazon's item pool, which data=table has not; "
            "set corpus=all or corpus=category"
        )
    tables = load_tables(steps, settings)
    checks = check_tables(steps, tables, settings)
    category_counts = _categories(steps, checks)
    _require_queries(category, category_counts, settings.files[QUERIES])
    targets = find_targets(steps, tables)
    purchases = find_purchases(steps, tables, targets)
    counted = (*tables.values(), checks)
    return RawStore(
        targets=targets,
        purchases=purchases,
        products=find_products(steps, tables, targets, purchases, corpus, category),
        counts={name: n for artifact in counted for name, n in artifact.counts.items()},
        category_counts={name: {"queries_in_file": n} for name, n in category_counts.items()},
    )


def load_tables(steps: Steps, settings: TableSettings) -> dict[str, Artifact]:
    """The copies of all tables.

    Raises:
        DataError: a table cannot be read. The rules are checked on the others all the same.
    """
    tables: dict[str, Artifact] = {}
    broken: list[Violation] = []
    for name, path in settings.files.items():
        try:
            tables[name] = load_table(steps, name, path)
        except BrokenTableError as error:
            broken += error.violations
    if broken:
        with connect(steps.engine, steps.folder) as connection:
            _raise_violations(connection, tables, settings, broken)
    return tables


def check_tables(steps: Steps, tables: Mapping[str, Artifact], settings: TableSettings) -> Artifact:
    """category, queries: how many queries each category has, once no rule is broken.

    Raises:
        DataError: a rule is broken.
    """

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> Mapping[str, int]:
        _raise_violations(connection, tables, settings, [])
        copy(
            connection,
            """SELECT category, count(*) AS queries FROM queries JOIN products USING (product_id)
               GROUP BY category ORDER BY queries DESC, category""",
            out,
        )
        ((repeated,),) = connection.execute(
            """SELECT count(*) - (SELECT count(*) FROM (
                   SELECT DISTINCT user_id, product_id, time FROM purchases)) FROM purchases"""
        ).fetchall()
        return {"purchases_repeated": repeated}

    return steps.run("table-checks", {name: one.sha256 for name, one in tables.items()}, build)


def _raise_violations(
    connection: duckdb.DuckDBPyConnection,
    tables: Mapping[str, Artifact],
    settings: TableSettings,
    broken: list[Violation],
) -> None:
    """Raises DataError over what the rules find in the tables that could be read, and `broken`."""
    open_tables(connection, tables)
    files = {name: path for name, path in settings.files.items() if name in tables}
    violations = broken + find_violations(connection, files, settings.max_faults)
    if violations:
        raise DataError(report(violations, settings.max_faults))


def _categories(steps: Steps, checks: Artifact) -> dict[str, int]:
    """How many queries each category has, those with most first."""
    with connect(steps.engine, steps.folder) as connection:
        view(connection, "checks", [checks.path])
        rows = connection.execute("SELECT * FROM checks ORDER BY queries DESC, category")
        return dict(rows.fetchall())


def _require_queries(category: str, queries: Mapping[str, int], path: Path) -> None:
    if category in queries:
        return
    there = [f"{name} ({count})" for name, count in queries.items()]
    left = len(there) - CATEGORIES_SHOWN
    raise DataError(
        f"{path}: no query is for a product of the category {category}; set category.name= to one "
        f"of those with queries: {', '.join(there[:CATEGORIES_SHOWN])}"
        f"{f' and {left} more' if left > 0 else ''}"
    )


def find_targets(steps: Steps, tables: Mapping[str, Artifact]) -> Artifact:
    """The targets of RawStore."""

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> None:
        open_tables(connection, tables)
        copy(connection, read_sql("table_targets"), out)

    return steps.run("targets", {name: one.sha256 for name, one in tables.items()}, build)


def find_purchases(steps: Steps, tables: Mapping[str, Artifact], targets: Artifact) -> Artifact:
    """The purchases of RawStore. A purchase is of its product's category."""
    needed = {name: tables[name] for name in (PURCHASES, PRODUCTS)}

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> None:
        open_tables(connection, needed)
        view(connection, "targets", [targets.path])
        connection.execute(
            """CREATE TEMP VIEW bought AS
               SELECT user_id, product_id, time AS timestamp, category
               FROM purchases JOIN products USING (product_id)"""
        )
        copy(connection, read_sql("purchases_before"), out)

    inputs = {"targets": targets.sha256, **{name: one.sha256 for name, one in needed.items()}}
    return steps.run("purchases", inputs, build)


def find_products(
    steps: Steps,
    tables: Mapping[str, Artifact],
    targets: Artifact,
    purchases: Artifact,
    corpus: str,
    category: str,
) -> Artifact:
    """The products of RawStore."""
    chosen = category if corpus == "category" else None

    def build(connection: duckdb.DuckDBPyConnection, out: Path) -> None:
        open_tables(connection, {PRODUCTS: tables[PRODUCTS]})
        view(connection, "targets", [targets.path])
        view(connection, "before", [purchases.path])
        connection.execute(f"SET VARIABLE corpus = {literal(corpus)}")
        connection.execute(f"SET VARIABLE category = {literal(category)}")
        copy(connection, read_sql("table_products"), out)

    inputs = {
        "products": tables[PRODUCTS].sha256,
        "targets": targets.sha256,
        "purchases": purchases.sha256 if chosen else None,  # all products are there in any case
        "corpus": corpus,
        "category": chosen,
    }
    return steps.run("products", inputs, build)
