"""Where the files of Amazon-Reviews-2023 and Amazon-C4 lie under a data root.

    benchmark/0core/rating_only/{category}.csv      user, product, time: enough for histories
    raw/review_categories/{category}.jsonl          read for histories where there is no such CSV
    raw/meta_categories/meta_{category}.jsonl       or raw_meta_{category}/*.parquet
    amazon_c4/test.csv
    amazon_c4/sampled_item_metadata_1M.jsonl

Each may be gzipped; all but test.csv may be Parquet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memrerank.categories import label_of
from memrerank.errors import DataError

RATINGS_FOLDER = Path("benchmark/0core/rating_only")
REVIEWS_FOLDER = Path("raw/review_categories")
METADATA_FOLDER = Path("raw/meta_categories")
METADATA_PREFIX = "meta_"
HUB_METADATA_PREFIX = "raw_meta_"  # folders of Parquet files, as the hub's loader made them
C4_FOLDER = Path("amazon_c4")
QUERIES_NAME = "test"
ITEMS_NAME = "sampled_item_metadata_1M"

QUERIES_SUFFIXES = (".csv", ".csv.gz")
RATINGS_SUFFIXES = (".csv", ".csv.gz", ".parquet")  # in order of preference
RAW_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The files of a data root; purchases and metadata by category, in order of category."""

    root: Path
    purchases: dict[str, Path]
    metadata: dict[str, tuple[Path, ...]]
    queries: Path
    items: Path


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
    purchases, metadata = find_purchases(root), find_metadata(root)
    for found, needed in (
        (
            purchases,
            f"{root / RATINGS_FOLDER / category}.csv or {root / REVIEWS_FOLDER / category}",
        ),
        (metadata, f"{root / METADATA_FOLDER / METADATA_PREFIX}{category}"),
    ):
        if category not in found:
            raise DataError(
                f"{needed}.jsonl (or .jsonl.gz, .parquet) is missing; set data.root= to a folder "
                "that has it, let data.download=true fetch it, or choose a category= that is there "
                f"({', '.join(map(label_of, found)) or 'none is'})"
            )
    return StoreFiles(root, purchases, metadata, *require_c4(root))


def require_c4(root: Path) -> tuple[Path, Path]:
    """Amazon-C4's queries and item pool.

    Raises:
        DataError: one of them is missing.
    """
    queries, items = find_queries(root), find_items(root)
    if queries is None or items is None:
        missing = f"{QUERIES_NAME}.csv" if queries is None else f"{ITEMS_NAME}.jsonl"
        raise DataError(
            f"{root / C4_FOLDER / missing} is missing; set data.root= to a folder that has it, "
            "or let data.download=true fetch it"
        )
    return queries, items


def find_purchases(root: Path) -> dict[str, Path]:
    """The file of purchases of each category: the rating-only CSV, else the reviews."""
    found = _by_category(root / RATINGS_FOLDER, "", RATINGS_SUFFIXES)
    return dict(sorted((_by_category(root / REVIEWS_FOLDER, "", RAW_SUFFIXES) | found).items()))


def find_metadata(root: Path) -> dict[str, tuple[Path, ...]]:
    """The metadata files of each category: one file, else the Parquet files of a folder."""
    folders = {
        folder.name.removeprefix(HUB_METADATA_PREFIX): tuple(sorted(folder.glob("*.parquet")))
        for folder in root.glob(f"{HUB_METADATA_PREFIX}*")
    }
    single = _by_category(root / METADATA_FOLDER, METADATA_PREFIX, RAW_SUFFIXES)
    found = {name: paths for name, paths in folders.items() if paths}
    return dict(sorted((found | {name: (path,) for name, path in single.items()}).items()))


def find_queries(root: Path) -> Path | None:
    """Amazon-C4's test.csv, if it is there."""
    return _by_category(root / C4_FOLDER, "", QUERIES_SUFFIXES).get(QUERIES_NAME)


def find_items(root: Path) -> Path | None:
    """The file of Amazon-C4's item pool, if it is there."""
    return _by_category(root / C4_FOLDER, "", RAW_SUFFIXES).get(ITEMS_NAME)


def _by_category(folder: Path, prefix: str, suffixes: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for suffix in suffixes:
        for path in sorted(folder.glob(f"{prefix}*{suffix}")):
            found.setdefault(path.name.removeprefix(prefix).removesuffix(suffix), path)
    return found
