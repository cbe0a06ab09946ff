"""What of Amazon's files is missing under a data root, fetched from the hub or counted."""

import logging
from pathlib import Path

from memrerank.categories import CATEGORIES
from memrerank.data.amazon.authors import authors_folder
from memrerank.data.amazon.files import (
    find_items,
    find_metadata,
    find_purchases,
    find_queries,
)
from memrerank.data.download import amazon_files, authors_files, c4_files, fetch

log = logging.getLogger(__name__)


def fetch_missing(root: Path, category: str, *, authors: bool, allowed: bool) -> dict[str, int]:
    """Fetches what a benchmark needs and `root` lacks; counts what is still lacking.

    Histories reach across all categories, so the purchases and the metadata of every category
    are needed, whichever is chosen. The authors' benchmark brings its histories with it and needs
    no purchases.

    Args:
        authors: the authors' published benchmark in place of one's own.
        allowed: may the hub be asked at all?
    """
    names = list(CATEGORIES.values())
    purchases = [] if authors else [name for name in names if name not in find_purchases(root)]
    metadata = [name for name in names if name not in find_metadata(root)]
    if allowed:
        files = amazon_files(purchases, metadata)
        if find_queries(root) is None or find_items(root) is None:
            files += c4_files()
        if authors and category in names and not (authors_folder(root) / category).is_dir():
            files += authors_files([category])
        if files:
            fetch(files, root, allowed=True)
        return {}
    missing = {
        "categories_without_a_purchases_file": len(purchases),
        "categories_without_a_metadata_file": len(metadata),
    }
    if root.is_dir() and any(missing.values()):
        log.warning(
            "%s lacks the purchases of %d and the metadata of %d of %d categories: histories do "
            "not reach into them. data.download=true fetches the files",
            root,
            len(purchases),
            len(metadata),
            len(names),
        )
    return {name: number for name, number in missing.items() if number}
