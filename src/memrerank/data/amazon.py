"""Amazon-Reviews-2023 and Amazon-C4 in their original layout, read into DuckDB tables.

Layout under the data root (each `.jsonl` may be a `.jsonl.gz`):

    raw/review_categories/{category}.jsonl
    raw/meta_categories/meta_{category}.jsonl
    amazon_c4/test.csv
    amazon_c4/sampled_item_metadata_1M.jsonl
"""

import csv
import glob
from dataclasses import dataclass
from pathlib import Path

import duckdb

from memrerank.data.jsonl import read_jsonl
from memrerank.errors import DataError

REVIEWS_FOLDER = Path("raw/review_categories")
METADATA_FOLDER = Path("raw/meta_categories")
METADATA_PREFIX = "meta_"
QUERIES_FILE = Path("amazon_c4/test.csv")
ITEMS_FILE = Path("amazon_c4/sampled_item_metadata_1M.jsonl")
SUFFIXES = (".jsonl", ".jsonl.gz")  # in order of preference

QUERY_COLUMNS = ("qid", "query", "item_id", "user_id")
REVIEW_FIELDS = {"user_id": str, "parent_asin": str, "timestamp": int}
METADATA_FIELDS = {"parent_asin": str, "title": str}
METADATA_TEXTS = ("description", "features", "details")
ITEM_FIELDS = {"item_id": str, "category": str, "metadata": str}


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The files of a data root; reviews and metadata by category."""

    root: Path
    reviews: dict[str, Path]
    metadata: dict[str, Path]
    queries: Path
    items: Path

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file, in a fixed order."""
        return (*self.reviews.values(), *self.metadata.values(), self.queries, self.items)


def find_files(root: Path, category: str) -> StoreFiles:
    """The files under `root` from which the benchmark of `category` is made.

    Raises:
        DataError: the root, a folder or a file that `category` needs is missing.
    """
    if not root.is_dir():
        raise DataError(
            f"the data root {root} does not exist; set data.root= to the folder that holds "
            "raw/ and amazon_c4/"
        )
    reviews = _by_category(root, REVIEWS_FOLDER, "")
    metadata = _by_category(root, METADATA_FOLDER, METADATA_PREFIX)
    for found, stem in (
        (reviews, REVIEWS_FOLDER / category),
        (metadata, METADATA_FOLDER / f"{METADATA_PREFIX}{category}"),
    ):
        if category not in found:
            raise DataError(
                f"{root / stem}.jsonl[.gz] is missing; set data.root= to a folder that has it "
                f"or choose a category= that is there ({', '.join(found) or 'none is'})"
            )
    for name in (QUERIES_FILE, ITEMS_FILE):
        if not (root / name).is_file():
            raise DataError(f"{root / name} is missing; set data.root= to a folder that has it")
    return StoreFiles(root, reviews, metadata, root / QUERIES_FILE, root / ITEMS_FILE)


def _by_category(root: Path, folder: Path, prefix: str) -> dict[str, Path]:
    if not (root / folder).is_dir():
        raise DataError(
            f"the folder {root / folder} is missing; set data.root= to the folder that holds "
            f"{folder} (it is {root} now)"
        )
    found: dict[str, Path] = {}
    for suffix in SUFFIXES:
        for path in sorted((root / folder).glob(f"{prefix}*{suffix}")):
            found.setdefault(path.name.removeprefix(prefix).removesuffix(suffix), path)
    return dict(sorted(found.items()))


def read_queries(connection: duckdb.DuckDBPyConnection, files: StoreFiles) -> None:
    """Creates table `queries` (query_id, text, item_id, user_id) from Amazon-C4's test.csv.

    Raises:
        DataError: the file is empty, lacks columns or values, is malformed or repeats a qid.
    """
    path = files.queries
    header = _csv_header(path)
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in header)
    try:
        connection.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE queries AS
            SELECT qid AS query_id, query AS text, item_id, user_id
            FROM read_csv(?, header = true, auto_detect = false, delim = ',', quote = '"',
                          escape = '"', columns = {{{columns}}})
            """,
            [glob.escape(str(path))],
        )
    except duckdb.Error as error:
        raise DataError(_csv_fault(path, header) or f"{path}: {_first_line(error)}") from error
    rows, distinct, missing = connection.execute(
        """SELECT count(*), count(DISTINCT query_id), count(*) FILTER (
               coalesce(least(trim(query_id), trim(text), trim(item_id), trim(user_id)), '') = ''
               OR query_id IS NULL OR text IS NULL OR item_id IS NULL OR user_id IS NULL)
           FROM queries"""
    ).fetchall()[0]
    if not rows:
        raise DataError(f"{path} is empty: it has a header and no queries; fetch the file again")
    if missing or distinct < rows:
        raise DataError(_csv_fault(path, header) or f"{path}: {missing} rows lack a value")


def read_reviews(connection: duckdb.DuckDBPyConnection, files: StoreFiles) -> None:
    """Creates table `reviews` (user_id, parent_asin, timestamp, category) of the query users.

    Reviews of other users are checked but not kept. Needs the table `queries`.
    """
    read_jsonl(
        connection,
        "reviews",
        list(files.reviews.values()),
        REVIEW_FIELDS,
        where="user_id IN (SELECT user_id FROM queries)",
    )
    _name_categories(connection, "reviews", files.reviews)


def read_items(connection: duckdb.DuckDBPyConnection, files: StoreFiles) -> None:
    """Creates table `items` (item_id, category, metadata) from Amazon-C4's item pool."""
    read_jsonl(connection, "items", [files.items], ITEM_FIELDS)


def read_metadata(connection: duckdb.DuckDBPyConnection, files: StoreFiles, wanted: str) -> None:
    """Creates table `metadata` (parent_asin, title, category, and JSON texts) of some products.

    Args:
        wanted: a SQL query that gives the ids to keep. A product that is described several
            times keeps the first description with a title, in order of category.
    """
    read_jsonl(
        connection,
        "metadata",
        list(files.metadata.values()),
        METADATA_FIELDS,
        optional=METADATA_TEXTS,
        nullable=("title",),
        where=f"parent_asin IN ({wanted})",
    )
    _name_categories(connection, "metadata", files.metadata)
    texts = ", ".join(METADATA_TEXTS)
    connection.execute(
        f"""CREATE OR REPLACE TEMP TABLE metadata AS SELECT * FROM metadata
        QUALIFY row_number() OVER (PARTITION BY parent_asin ORDER BY
            coalesce(trim(title), '') = '', category, title, {texts}) = 1"""
    )


def _name_categories(
    connection: duckdb.DuckDBPyConnection, table: str, paths: dict[str, Path]
) -> None:
    """Replaces the column `filename` by the file's `category`."""
    connection.execute("CREATE OR REPLACE TEMP TABLE files (filename VARCHAR, category VARCHAR)")
    connection.executemany(
        "INSERT INTO files VALUES (?, ?)", [(str(path), name) for name, path in paths.items()]
    )
    connection.execute(
        f"""CREATE OR REPLACE TEMP TABLE {table} AS
        SELECT {table}.* EXCLUDE (filename), category FROM {table} JOIN files USING (filename)"""
    )


def _csv_header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        header = next(csv.reader(file), None)
    if not header:
        raise DataError(f"{path} is empty; fetch the file again")
    missing = [name for name in QUERY_COLUMNS if name not in header]
    if missing:
        raise DataError(
            f"{path} lacks the columns {', '.join(missing)}; its header is {','.join(header)}"
        )
    return header


def _csv_fault(path: Path, header: list[str]) -> str | None:
    """`path:line: what is wrong` for the first row at fault; None when all rows are sound."""
    seen: set[str] = set()
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            next(rows)
            for row in rows:
                if fault := _row_fault(row, header, seen):
                    return f"{path}:{rows.line_num}: {fault}"
        except UnicodeDecodeError:
            return f"{path}:{rows.line_num + 1}: invalid UTF-8 at or after this line"
        except csv.Error as error:
            return f"{path}:{rows.line_num}: malformed CSV ({error})"
    return None


def _row_fault(row: list[str], header: list[str], seen: set[str]) -> str | None:
    if not row:
        return None  # a blank line
    if len(row) != len(header):
        return f"{len(row)} values where the header has {len(header)}"
    values = dict(zip(header, row, strict=True))
    for name in QUERY_COLUMNS:
        if not values[name].strip():
            return f"the column {name} has no value"
    if values["qid"] in seen:
        return f"the qid {values['qid']} appears a second time"
    seen.add(values["qid"])
    return None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
