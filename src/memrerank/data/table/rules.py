"""What must hold in the three tables. Each rule is a query for the rows that break it.

The queries see the tables under their names, as `open_tables` makes them. They give `file_row`
and, where there is something to show, `found`. A value that is missing or no number breaks the
rule that says so and no other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from memrerank.data.engine import literal
from memrerank.data.readers.kinds import SECONDS, TOO_LATE
from memrerank.data.steps import Artifact
from memrerank.data.table.columns import PRODUCTS, PURCHASES, QUERIES, TABLES, TIMESTAMP
from memrerank.data.table.report import FaultyRow, Violation
from memrerank.schema import Split

SPLITS = ", ".join(split.value for split in Split)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule on the rows of one table.

    says: what is wrong with a row that breaks it, and what to do.
    query: SQL that gives `file_row` and `found` of each.
    others: the tables that it also looks into.
    """

    table: str
    says: str
    query: str
    others: tuple[str, ...] = ()


def _where(table: str, condition: str, says: str, found: str) -> Rule:
    """A rule that a row breaks or keeps whatever the other rows are."""
    return Rule(table, says, f"SELECT file_row, {found} AS found FROM {table} WHERE {condition}")


def _values() -> Iterator[Rule]:
    """Required values, and values that are no text."""
    for table, columns in TABLES.items():
        for name in columns.required:
            yield _where(table, f"{name} IS NULL", f"{name} has no value", "NULL")
        yield Rule(
            table,
            "a value is neither text nor a whole number",
            f"SELECT file_row, unnest(wrong) AS found FROM {table}",
        )
    yield _where(
        PRODUCTS,
        "category IS NULL",
        "category has no value; fill it in, or leave the column out to have one category",
        "product_id",
    )


def _timestamps(table: str) -> Iterator[Rule]:
    """`timestamp` in UTC milliseconds. `time` is its number, NULL where it is none."""
    first, last = SECONDS
    conditions = {
        "timestamp IS NOT NULL AND time IS NULL": "timestamp is no whole number of 64 bits",
        "time < 0": "timestamp is before 1970",
        f"time >= {first} AND time < {last}": "timestamp looks like seconds",
        f"time >= {TOO_LATE}": "timestamp looks like micro- or nanoseconds",
    }
    for condition, says in conditions.items():
        yield _where(table, condition, f"{says}; write UTC milliseconds", TIMESTAMP)


def _repeated(table: str, key: str, says: str, condition: str = "true") -> Rule:
    """A key that an earlier row has, where a condition on row `one` and row `first` holds."""
    query = f"""
        WITH repeated AS (
            SELECT {key}, min(file_row) AS first_row FROM {table}
            GROUP BY {key} HAVING count(*) > 1)
        SELECT one.file_row, one.{key} || ', as in row ' || first_row AS found
        FROM {table} AS one JOIN repeated USING ({key})
        JOIN {table} AS first ON first.file_row = first_row
        WHERE one.file_row > first_row AND {condition}"""
    return Rule(table, says, query)


def _unknown_product(table: str) -> Rule:
    return Rule(
        table,
        "product_id is not in the products",
        f"""SELECT file_row, product_id AS found FROM {table} ANTI JOIN products USING (product_id)
            WHERE product_id IS NOT NULL""",
        (PRODUCTS,),
    )


NO_PURCHASE = Rule(
    QUERIES,
    "the user has no purchase of the product, and the query no timestamp of its own",
    """SELECT file_row, user_id || ' and ' || product_id AS found
       FROM queries ANTI JOIN purchases USING (user_id, product_id)
       WHERE timestamp IS NULL AND user_id IS NOT NULL AND product_id IS NOT NULL""",
    (PURCHASES,),
)

SPLIT_MISSING = Rule(
    QUERIES,
    "split has no value, though other rows have one; give all rows one, or none",
    """SELECT file_row, query_id AS found FROM queries
       WHERE split IS NULL AND EXISTS (SELECT 1 FROM queries WHERE split IS NOT NULL)""",
)

TWO_SPLITS = Rule(
    QUERIES,
    "the user has an earlier query in another split; keep all queries of a user in one",
    """WITH earlier AS (
           SELECT user_id, arg_min(split, file_row) AS split, min(file_row) AS first_row
           FROM queries WHERE split IS NOT NULL GROUP BY user_id HAVING count(DISTINCT split) > 1)
       SELECT file_row,
              user_id || ' in ' || queries.split || ', in row ' || first_row
                  || ' in ' || earlier.split AS found
       FROM queries JOIN earlier USING (user_id) WHERE queries.split <> earlier.split""",
)


def _rules() -> Iterator[Rule]:
    yield from _values()
    yield from _timestamps(PURCHASES)
    yield _unknown_product(PURCHASES)
    yield _repeated(
        PRODUCTS,
        "product_id",
        "product_id is there twice, with different titles; keep the right row",
        "one.title IS DISTINCT FROM first.title",
    )
    yield _repeated(
        PRODUCTS,
        "product_id",
        "product_id is there twice, with the same title; keep one row",
        "one.title IS NOT DISTINCT FROM first.title",
    )
    yield from _timestamps(QUERIES)
    yield _repeated(QUERIES, "query_id", "query_id is there twice; each query needs one of its own")
    yield _unknown_product(QUERIES)
    yield NO_PURCHASE
    known = ", ".join(literal(split.value) for split in Split)
    yield _where(QUERIES, f"split NOT IN ({known})", f"split is none of {SPLITS}", "split")
    yield SPLIT_MISSING
    yield TWO_SPLITS


RULES = tuple(sorted(_rules(), key=lambda rule: list(TABLES).index(rule.table)))


def open_tables(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, Artifact]) -> None:
    """Makes the loaded tables readable under their names, with `file_row` from 1.

    Where there is a timestamp, `time` is its value as a BIGINT; NULL where it is no whole number.
    """
    for name, artifact in tables.items():
        # DuckDB also casts '1e3', ' 7 ' and '2.6'; only what it would write itself is an integer.
        number = f"TRY_CAST({TIMESTAMP} AS BIGINT)"
        time = f"CASE WHEN CAST({number} AS VARCHAR) = {TIMESTAMP} THEN {number} END AS time"
        connection.execute(
            f"""CREATE TEMP VIEW {name} AS
                SELECT file_row_number + 1 AS file_row, * EXCLUDE (file_row_number)
                       {", " + time if TIMESTAMP in TABLES[name].columns else ""}
                FROM read_parquet({literal(str(artifact.path))}, file_row_number = true)"""
        )


def find_violations(
    connection: duckdb.DuckDBPyConnection, files: Mapping[str, Path], limit: int
) -> list[Violation]:
    """All rules that are broken, with exact counts, in the order of the tables.

    Args:
        connection: has the tables of `files`, as `open_tables` makes them.
        files: the file of each table by its name. Rules that need other tables are left out.
        limit: rows kept of each rule.
    """
    violations = []
    for rule in RULES:
        if not {rule.table, *rule.others} <= files.keys():
            continue
        ((count,),) = connection.execute(f"SELECT count(*) FROM ({rule.query})").fetchall()
        if count:
            rows = connection.execute(
                f"""SELECT file_row, left(found, 200) FROM ({rule.query})
                    ORDER BY file_row, found LIMIT {int(limit)}"""
            ).fetchall()
            faulty = tuple(FaultyRow(*row) for row in rows)
            violations.append(Violation(files[rule.table], rule.says, count, faulty))
    return violations
