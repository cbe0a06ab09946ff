"""Records of a shop in the raw layout, for tests to write and to break."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memrerank.data.engine import EngineSettings
from memrerank.data.steps import Steps
from memrerank.schema import Benchmark

COLUMNS = ("qid", "query", "item_id", "user_id", "ori_rating", "ori_review")


def write_lines(path: Path, records: Sequence[Any]) -> None:
    """One JSON text a line; a string or bytes is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [one if isinstance(one, str | bytes) else json.dumps(one) for one in records]
    path.write_bytes(
        b"".join((one if isinstance(one, bytes) else one.encode()) + b"\n" for one in lines)
    )


def review(user: str, product: str, timestamp: Any) -> dict[str, Any]:
    """A review with the fields that the readers use and some that they do not."""
    return {
        "rating": 5.0,
        "title": "Good",
        "text": "Works as told.",
        "asin": product + "-variant",
        "parent_asin": product,
        "user_id": user,
        "timestamp": timestamp,
    }


def product(id: str, title: str = "", **fields: Any) -> dict[str, Any]:
    """A metadata record in the raw form."""
    empty = {"features": [], "description": [], "price": None, "details": {}}
    return {"title": title or f"Title of {id}", **empty, "parent_asin": id, **fields}


def item(id: str, text: str, category: str = "Shop") -> dict[str, str]:
    """A record of Amazon-C4's item pool."""
    return {"item_id": id, "category": category, "metadata": text}


def load_benchmark(
    root: Path,
    category: str,
    *,
    max_history: int = 3,
    max_words: int = 120,
    seed: int = 0,
    source: str = "test",
    corpus: str = "c4_1m",
    steps: Steps | None = None,
) -> Benchmark:
    """The benchmark of a shop in Amazon's layout; its steps go into a folder beside the shop."""
    from memrerank.data.amazon import amazon_store, find_files
    from memrerank.data.benchmark import BenchmarkSettings, build_benchmark

    settings = BenchmarkSettings(category, max_history, max_words, seed, source)
    steps = steps or make_steps(root)
    raw = amazon_store(steps, find_files(root, category), category, corpus)
    return build_benchmark(steps, raw, settings)


def make_steps(root: Path) -> Steps:
    """Steps whose files lie beside a shop."""
    return Steps(root.parent / "steps", EngineSettings(threads=1))
