"""A small shop in three tables, written in any format, for tests to read and to break."""

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from memrerank.data.engine import EngineSettings
from memrerank.data.raw import RawStore
from memrerank.data.steps import Steps
from memrerank.data.table import TableSettings, table_store

Rows = Sequence[Mapping[str, Any]]
T = 1_700_000_000_000  # milliseconds


def bought(user: Any, product: Any, timestamp: Any) -> dict[str, Any]:
    """A row of the purchases."""
    return {"user_id": user, "product_id": product, "timestamp": timestamp}


def asked(query: Any, text: Any, user: Any, product: Any, **more: Any) -> dict[str, Any]:
    """A row of the queries."""
    return {"query_id": query, "text": text, "user_id": user, "product_id": product, **more}


PURCHASES = [
    bought("ann", "spade", T + 30),
    bought("ann", "hose", T + 10),
    bought("ann", "robot", T + 20),
    bought("ann", "spade", T + 40),  # again, later: the first one dates the query
    bought("bob", "robot", T + 50),
    bought("bob", "hose", T + 5),
    bought("bob", "hose", T + 5),  # repeated
    bought("bob", "kite", T + 60),  # after the target
    bought("cy", "hose", T + 90),  # nothing before the target
]
PRODUCTS = [
    {"product_id": "spade", "title": "Spade", "description": 'A "good", old\none', "category": "G"},
    {"product_id": "hose", "title": "Hose, 10 m", "description": None, "category": "G"},
    {"product_id": "robot", "title": "Robot", "description": '{"a": 1}', "category": "Toys"},
    {"product_id": "kite", "title": "Kïte", "description": "Flies", "category": "Toys"},
    {"product_id": "rake", "title": "Rake", "description": "", "category": "G"},
]
QUERIES = [
    asked("q2", "a robot", "bob", "robot", timestamp=None, review="My son, 5, loves it"),
    asked("q1", "something to dig", "ann", "spade", timestamp=None, review=None),
    asked("q3", "water, please", "cy", "hose", timestamp=T + 80, review=None),
]


def write_table(path: Path, rows: Rows) -> Path:
    """Writes rows in the format that the name tells; a key that a row lacks is null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.name.endswith(".parquet"):
        columns = {name: [row.get(name) for row in rows] for name in names}
        pq.write_table(pa.table(columns), path, row_group_size=2)
        return path
    text = io.StringIO(newline="")
    if ".jsonl" in path.name:
        text.writelines(json.dumps(row) + "\n" for row in rows)
    else:
        writer = csv.DictWriter(text, names)
        writer.writeheader()
        writer.writerows(rows)
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_shop(
    root: Path,
    suffix: str = ".jsonl",
    purchases: Rows = PURCHASES,
    products: Rows = PRODUCTS,
    queries: Rows = QUERIES,
) -> TableSettings:
    """Writes a shop, and returns the settings that read it."""
    tables = {"purchases": purchases, "products": products, "queries": queries}
    names = {
        name: write_table(root / f"{name}{suffix}", rows).name for name, rows in tables.items()
    }
    return TableSettings(root, **names, max_faults=20)


def read_shop(
    settings: TableSettings, corpus: str = "all", category: str = "G"
) -> tuple[RawStore, Steps]:
    """The store, and the steps that made it; they lie beside the shop."""
    steps = Steps(settings.root.parent / "steps", EngineSettings(threads=2))
    return table_store(steps, settings, corpus, category), steps


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """The rows of a Parquet file, in order."""
    with duckdb.connect() as connection:
        return connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
