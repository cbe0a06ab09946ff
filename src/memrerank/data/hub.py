"""The Hugging Face hub: which files it has, and how one of them comes to this machine.

A file is written beside its place as `.{name}.{version}.part` and renamed when its size and, where
the hub knows one, its sha256 are right: a file under its own name is complete. `hf_hub_download` is
not used, because in huggingface_hub 2.4 it starts a killed download from zero; `http_get`, which it
is built on, goes on from the bytes that are there.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from filelock import FileLock

from memrerank import __version__
from memrerank.errors import DataError
from memrerank.storage import file_sha256

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

log = logging.getLogger(__name__)

BY_HAND = "copy the files there yourself and set data.download=false"


@dataclass(frozen=True, slots=True)
class Listing:
    """A file as the hub tells of it."""

    repository: str  # of a data set, "McAuley-Lab/Amazon-C4"
    name: str  # its path in the repository
    size: int  # bytes
    version: str  # changes with the content
    sha256: str | None  # None: the hub keeps none of a small file


@dataclass(frozen=True, slots=True)
class Download:
    """A file on its way from the hub to `path`."""

    listing: Listing
    path: Path

    @property
    def part(self) -> Path:
        """What has come of it so far."""
        return self.path.with_name(f".{self.path.name}.{self.listing.version[:16]}.part")

    @property
    def there(self) -> int:
        """Bytes that have come so far, in this run or an earlier one."""
        return self.part.stat().st_size if self.part.is_file() else 0


def resolve_endpoint(endpoint: str | None) -> str:
    """The address of the hub: what is given, else HF_ENDPOINT, else the public one."""
    from huggingface_hub import HfApi

    return HfApi(endpoint=endpoint).endpoint


def list_files(
    repository: str, names: Sequence[str], endpoint: str, wanted: str
) -> dict[str, Listing]:
    """Those of the files that a data set has, by name.

    Args:
        wanted: what is to be fetched, for the message where that fails.

    Raises:
        DataError: the hub cannot be reached, lacks the data set or refuses it.
    """
    from huggingface_hub import HfApi, RepoFile

    api = HfApi(endpoint=endpoint, library_name="memrerank", library_version=__version__)
    hub = without_secrets(endpoint)
    with _refusals_explained(repository, endpoint, wanted):
        try:
            found = api.get_paths_info(repository, list(names), repo_type="dataset")
        except _transport_errors() as error:
            raise DataError(
                f"{hub} cannot be reached ({_reason(error)}). To be fetched:\n{wanted}\n"
                f"Check the network, the proxy and HF_ENDPOINT, or {BY_HAND}"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{hub} does not answer as the hub does ({_reason(error)}). To be fetched:\n"
                f"{wanted}\nCheck the proxy and HF_ENDPOINT, or {BY_HAND}"
            ) from error
    listings = {}
    for one in found:
        if isinstance(one, RepoFile):
            sha256 = one.lfs.sha256 if one.lfs else None
            version = sha256 or one.blob_id
            listings[one.path] = Listing(repository, one.path, one.size, version, sha256)
    return listings


def download(one: Download, endpoint: str) -> None:
    """Fetches a file, from where an earlier run stopped, and puts it in its place.

    Raises:
        DataError: it is refused, breaks off, cannot be written, or is not what the hub told of.
    """
    try:
        one.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(one.path.with_name(f".{one.path.name}.lock")):
            if one.path.is_file():  # another run was faster
                return
            _drop_useless_parts(one)
            if one.there < one.listing.size or not one.part.exists():
                _receive(one, endpoint)
            _check(one)
            one.part.replace(one.path)
    except OSError as error:
        raise DataError(
            f"{one.path} could not be written in full ({error}); check the disk and the rights on "
            f"{one.path.parent}, then run again: it goes on from what is there"
        ) from error


def without_secrets(endpoint: str) -> str:
    """An endpoint without a user name or password in it."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def size_text(number: float) -> str:
    """Bytes for people, in powers of 1000."""
    if number < 1000:
        return f"{number:.0f} B"
    for unit in ("kB", "MB"):
        number /= 1000
        if number < 1000:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:.1f} GB"


def _receive(one: Download, endpoint: str) -> None:
    """Adds to the part what is missing of it; broken connections are taken up again a few times."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    repository, name = one.listing.repository, one.listing.name
    url = hf_hub_url(repository, name, repo_type="dataset", endpoint=endpoint)
    headers = build_hf_headers(library_name="memrerank", library_version=__version__)
    headers["Accept-Encoding"] = "identity"  # ranges are of the file's own bytes
    with _refusals_explained(repository, endpoint, f"  {one.path}"):
        try:
            with one.part.open("ab") as file:
                http_get(
                    url,
                    file,
                    resume_size=one.there,
                    headers=headers,
                    displayed_filename=one.path.name,
                )
        except _transport_errors() as error:
            raise DataError(
                f"the download of {one.path} broke off after {size_text(one.there)} of "
                f"{size_text(one.listing.size)} ({_reason(error)}). Run again: it goes on from "
                "there"
            ) from error


def _drop_useless_parts(one: Download) -> None:
    """Removes what is left of other versions of the file, and a part that is too long."""
    for part in one.path.parent.glob(f".{one.path.name}.*.part"):
        if part != one.part or one.there > one.listing.size:
            log.warning("%s is no part of what the hub has now: it is fetched anew", part)
            part.unlink()


def _check(one: Download) -> None:
    """Raises DataError, and removes the part, where it is not what the hub told of."""
    listing = one.listing
    if one.there != listing.size:
        fault = f"has {one.there} bytes where the hub told of {listing.size}"
    elif listing.sha256 is not None and file_sha256(one.part) != listing.sha256:
        fault = f"does not have the sha256 that the hub told of, {listing.sha256}"
    else:
        return
    one.part.unlink()
    raise DataError(
        f"{listing.name} of {listing.repository}, as it was received, {fault}. It has been "
        f"removed; run again to fetch it anew, or {BY_HAND}"
    )


@contextmanager
def _refusals_explained(repository: str, endpoint: str, wanted: str) -> Iterator[None]:
    """Turns an HTTP status into a DataError.

    The client's own text is left out: it may hold signed addresses, which open what they name.
    """
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except HfHubHTTPError as error:
        problem = _refusal(error, repository, without_secrets(endpoint))
        raise DataError(f"{problem}. To be fetched:\n{wanted}\nOr {BY_HAND}") from error


def _refusal(error: "HfHubHTTPError", repository: str, hub: str) -> str:
    """What an HTTP status means here, and what to do."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    status, page = error.response.status_code, f"{hub}/datasets/{repository}"
    gated = isinstance(error, GatedRepoError)
    if status == 404 or (isinstance(error, RepositoryNotFoundError) and not gated):
        return (
            f"{page} is not on the hub, or not open to you ({status}): check HF_ENDPOINT, and log "
            "in with `hf auth login` where it is closed"
        )
    if gated or status in (401, 403):
        return (
            f"{page} is refused ({status}): accept its terms on that page and log in with "
            "`hf auth login`, or set HF_TOKEN to a token that may read it"
        )
    return f"{hub} answers {status} for {repository}: try again later, it goes on from there"


def _transport_errors() -> tuple[type[Exception], ...]:
    """What the client raises when there is no answer, or no whole one."""
    import httpx2

    return httpx2.RequestError, httpx2.InvalidURL


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
