"""The data files that are missing under a data root, fetched from the Hugging Face hub."""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memrerank.data.hub import (
    BY_HAND,
    Download,
    Listing,
    download,
    list_files,
    resolve_endpoint,
    size_text,
    without_secrets,
)
from memrerank.errors import DataError
from memrerank.schema import Split

log = logging.getLogger(__name__)

REVIEWS_REPOSITORY = "McAuley-Lab/Amazon-Reviews-2023"
C4_REPOSITORY = "McAuley-Lab/Amazon-C4"
AUTHORS_REPOSITORY = "zhiyuanpeng/amazon-c4-user-purchase-history"

SPARE = 1.05  # free space asked for, as a multiple of what is still to come
MOST_LISTED = 10  # files named in an error


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file on the hub and where it belongs under the data root."""

    repository: str  # of a data set, "McAuley-Lab/Amazon-C4"
    names: tuple[str, ...]  # its path in the repository; alternatives in order of preference
    folder: Path = Path()  # under the data root; the path in the repository goes on from here

    def find(self, root: Path) -> Path | None:
        """Where the file lies under `root`, if it does."""
        places = (root / self.folder / name for name in self.names)
        return next((place for place in places if place.is_file()), None)


def amazon_files(categories: Sequence[str], metadata: Sequence[str]) -> list[HubFile]:
    """Rating-only CSVs of `categories` and product metadata of the categories in `metadata`."""
    names = [f"benchmark/0core/rating_only/{category}.csv" for category in categories]
    names += [f"raw/meta_categories/meta_{category}.jsonl" for category in metadata]
    return [HubFile(REVIEWS_REPOSITORY, _or_gzipped(name)) for name in names]


def c4_files() -> list[HubFile]:
    """Amazon-C4's queries and its item pool."""
    folder = Path("amazon_c4")
    return [
        HubFile(C4_REPOSITORY, _or_gzipped("test.csv"), folder),
        HubFile(C4_REPOSITORY, _or_gzipped("sampled_item_metadata_1M.jsonl"), folder),
    ]


def authors_files(categories: Sequence[str]) -> list[HubFile]:
    """The three splits of the authors' published benchmark, of each category."""
    folder = Path("amazon-c4-user-purchase-history")
    return [
        HubFile(AUTHORS_REPOSITORY, _or_gzipped(f"{category}/{split.value}.jsonl"), folder)
        for category in categories
        for split in Split
    ]


def fetch(
    files: Sequence[HubFile], root: Path, *, allowed: bool, endpoint: str | None = None
) -> list[Path]:
    """Fetches what of `files` is missing under `root` and returns where each lies, in order.

    Args:
        allowed: data.download; False raises where something is missing.
        endpoint: of the hub; None: HF_ENDPOINT, or the public one.

    Raises:
        DataError: something is missing and not allowed, not on the hub, refused, too large for
            the disk or broken on the way. What came before a break is kept for the next run.
    """
    missing = [file for file in dict.fromkeys(files) if file.find(root) is None]
    if missing and not allowed:
        raise DataError(
            f"data.download=false, and missing are\n{_listed(_places(missing, root))}\n"
            "Put them there, or set data.download=true to fetch them"
        )
    if missing:
        _fetch_all(missing, root, endpoint)
    places = [file.find(root) for file in files]
    return [place for place in places if place is not None]


def _fetch_all(missing: Sequence[HubFile], root: Path, endpoint: str | None) -> None:
    from huggingface_hub import is_offline_mode

    wanted = _listed(_places(missing, root))
    if is_offline_mode():
        raise DataError(
            f"HF_HUB_OFFLINE is set, and missing are\n{wanted}\n"
            f"Unset HF_HUB_OFFLINE to fetch them, or {BY_HAND}"
        )
    address = resolve_endpoint(endpoint)
    log.info("asking %s for %d missing files", without_secrets(address), len(missing))
    listings: dict[tuple[str, str], Listing] = {}
    for repository in dict.fromkeys(file.repository for file in missing):
        names = [name for file in missing if file.repository == repository for name in file.names]
        found = list_files(repository, names, address, wanted)
        listings |= {(repository, name): listing for name, listing in found.items()}
    downloads = _plan(missing, listings, root)
    _check_room(downloads, root)
    _show_progress()
    for one in downloads:
        download(one, address)


def _plan(
    missing: Sequence[HubFile], listings: dict[tuple[str, str], Listing], root: Path
) -> list[Download]:
    """The first of each file's alternatives that the hub has; raises DataError if it has none."""
    downloads, absent = [], []
    for file in missing:
        keys = [(file.repository, name) for name in file.names]
        listing = next((listings[key] for key in keys if key in listings), None)
        if listing is None:
            absent.append(f"{file.repository}: {' or '.join(file.names)}")
        else:
            downloads.append(Download(listing, root / file.folder / listing.name))
    if absent:
        raise DataError(
            f"not on the hub:\n{_listed(absent)}\nCheck the category and HF_ENDPOINT, or {BY_HAND}"
        )
    return downloads


def _check_room(downloads: Sequence[Download], root: Path) -> None:
    """Logs what is to come and the room for it; raises DataError where that is too little."""
    there = root.absolute()
    free = shutil.disk_usage(next(one for one in (there, *there.parents) if one.exists())).free
    log.info("%s", _table(downloads, root, free))
    to_come = sum(one.listing.size - one.there for one in downloads)
    if free < to_come * SPARE:
        raise DataError(
            f"{size_text(to_come)} are to be fetched to {root}, where {size_text(free)} are free; "
            f"make room for {size_text(to_come * SPARE)}, or set data.root= to a larger disk"
        )


def _table(downloads: Sequence[Download], root: Path, free: int) -> str:
    """Each file with its size, the sum, and the room that there is."""
    lines = ["to be fetched:"]
    for one in downloads:
        came = f" ({size_text(one.there)} of it are there)" if one.there else ""
        name = f"{one.listing.repository}: {one.listing.name}"
        lines.append(f"{size_text(one.listing.size):>9}  {name}{came}")
    total, there = sum(one.listing.size for one in downloads), sum(one.there for one in downloads)
    came = f", {size_text(there)} of it are there" if there else ""
    lines.append(f"{size_text(total):>9}  in all{came}; {size_text(free)} are free at {root}")
    return "\n".join(lines)


def _show_progress() -> None:
    """Shows the bars of the client, which transformers switches off along with its own."""
    from huggingface_hub import constants
    from huggingface_hub.utils import enable_progress_bars

    if not constants.HF_HUB_DISABLE_PROGRESS_BARS:
        enable_progress_bars("huggingface_hub.http_get")


def _or_gzipped(name: str) -> tuple[str, ...]:
    return name, f"{name}.gz"


def _places(files: Sequence[HubFile], root: Path) -> list[str]:
    return [str(root / file.folder / file.names[0]) for file in files]


def _listed(lines: Sequence[str]) -> str:
    more = len(lines) - MOST_LISTED
    shown = [f"  {line}" for line in lines[:MOST_LISTED]]
    return "\n".join([*shown, f"  and {more} more"] if more > 0 else shown)
