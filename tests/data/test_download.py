"""Fetching from a hub: a real HTTP server on this machine, with all that can go wrong."""

import hashlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hub_server import SIGNATURE, HubServer
from huggingface_hub import constants

from memrerank.data.download import HubFile, amazon_files, authors_files, c4_files, fetch
from memrerank.errors import DataError

CHUNK = 16384  # bytes that the client takes off the network at once, in these tests
CONTENT = bytes(number * number % 251 for number in range(200_000))
SOME = HubFile("shop/reviews", ("raw/meta.jsonl",), Path("here"))
OTHER = HubFile("shop/queries", ("test.csv",), Path("there"))
FILES = {"shop/reviews": {"raw/meta.jsonl": CONTENT}, "shop/queries": {"test.csv": b"a,b\n1,2\n"}}
SECRET = "hf_this_is_a_secret"


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client that may ask this machine, knows a token, keeps nothing and never waits."""
    for name, value in {
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_TELEMETRY": True,
        "DOWNLOAD_CHUNK_SIZE": CHUNK,
        "HF_HOME": str(tmp_path / "home"),
        "HF_TOKEN_PATH": str(tmp_path / "home/token"),
        "HF_STORED_TOKENS_PATH": str(tmp_path / "home/stored_tokens"),
    }.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)


@pytest.fixture
def serve() -> Iterator[Callable[..., HubServer]]:
    servers = []

    def start(files: dict[str, dict[str, bytes]] = FILES, **faults: Any) -> HubServer:
        servers.append(HubServer(files, **faults))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def failure(files: list[HubFile], root: Path, url: str | None, allowed: bool = True) -> str:
    """The message of the DataError that fetching ends with; never with a secret in it."""
    with pytest.raises(DataError) as caught:
        fetch(files, root, allowed=allowed, endpoint=url)
    message = str(caught.value)
    assert SECRET not in message
    assert SIGNATURE not in message
    return message


def parts(root: Path) -> list[Path]:
    return list(root.rglob("*.part"))


# ---------------------------------------------------------------- what is fetched


def test_missing_files_come_into_their_folders(
    serve: Callable[..., HubServer], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, root = serve(), tmp_path / "data"
    with caplog.at_level(logging.INFO):
        places = fetch([SOME, OTHER, SOME], root, allowed=True, endpoint=server.url)
    assert (
        places == [root / name for name in ("here/raw/meta.jsonl", "there/test.csv")] + places[:1]
    )
    assert [place.read_bytes() for place in places[:2]] == [CONTENT, b"a,b\n1,2\n"]
    assert len(server.gets()) == 2
    assert not parts(root)
    table = next(text for text in caplog.messages if text.startswith("to be fetched"))
    lines = table.splitlines()
    assert lines[1:3] == [
        " 200.0 kB  shop/reviews: raw/meta.jsonl",
        "      8 B  shop/queries: test.csv",
    ]
    assert lines[3].startswith(" 200.0 kB  in all; ")
    assert lines[3].endswith(f" are free at {root}")


def test_sizes_are_asked_for_before_the_first_file(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    server = serve()
    fetch([SOME, OTHER], tmp_path, allowed=True, endpoint=server.url)
    assert [one.method for one in server.requests] == ["POST", "POST", "GET", "GET"]


def test_files_that_are_there_are_never_asked_for(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    server = serve()
    place = tmp_path / "here/raw/meta.jsonl"
    place.parent.mkdir(parents=True)
    place.write_text("mine")
    assert fetch([SOME], tmp_path, allowed=True, endpoint=server.url) == [place]
    assert fetch([SOME], tmp_path, allowed=False, endpoint=server.url) == [place]
    assert server.requests == []
    fetch([SOME, OTHER], tmp_path, allowed=True, endpoint=server.url)
    assert place.read_text() == "mine"
    assert [one.path for one in server.gets()] == ["/datasets/shop/queries/resolve/main/test.csv"]


def test_an_alternative_is_taken_where_the_first_is_not(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    both = HubFile("shop/reviews", ("a.jsonl", "a.jsonl.gz"))
    zipped = HubFile("shop/reviews", ("b.jsonl", "b.jsonl.gz"))
    server = serve({"shop/reviews": {"a.jsonl": b"{}", "a.jsonl.gz": b"!", "b.jsonl.gz": b"?"}})
    places = fetch([both, zipped], tmp_path, allowed=True, endpoint=server.url)
    assert places == [tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"]
    assert len(server.gets()) == 2
    (tmp_path / "a.jsonl").rename(tmp_path / "a.jsonl.gz")
    assert fetch([both], tmp_path, allowed=False) == [tmp_path / "a.jsonl.gz"]


def test_a_large_file_is_followed_to_its_storage_without_the_token(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    server = serve(large=frozenset({"raw/meta.jsonl"}))
    (place,) = fetch([SOME], tmp_path, allowed=True, endpoint=server.url)
    assert place.read_bytes() == CONTENT
    asked = {one.path.split("/")[1]: one.authorization for one in server.requests}
    assert asked == {"api": f"Bearer {SECRET}", "datasets": f"Bearer {SECRET}", "storage": None}


def test_the_files_of_each_data_set() -> None:
    ratings, metadata = amazon_files(["Books"], ["Gift_Cards"])
    assert ratings.repository == metadata.repository == "McAuley-Lab/Amazon-Reviews-2023"
    assert ratings.names[0] == "benchmark/0core/rating_only/Books.csv"
    assert metadata.names == tuple(
        f"raw/meta_categories/meta_Gift_Cards.jsonl{suffix}" for suffix in ("", ".gz")
    )
    root = Path("root")
    assert {root / one.folder / one.names[0] for one in [ratings, *c4_files()]} == {
        root / "benchmark/0core/rating_only/Books.csv",
        root / "amazon_c4/test.csv",
        root / "amazon_c4/sampled_item_metadata_1M.jsonl",
    }
    assert [str(one.folder / one.names[0]) for one in authors_files(["Books"])] == [
        f"amazon-c4-user-purchase-history/Books/{split}.jsonl" for split in ("train", "dev", "test")
    ]


# ---------------------------------------------------------------- broken and resumed


@pytest.mark.parametrize("large", [frozenset(), frozenset({"raw/meta.jsonl"})])
def test_a_broken_download_goes_on_from_where_it_was(
    serve: Callable[..., HubServer], tmp_path: Path, large: frozenset[str]
) -> None:
    broken = serve(break_at=100_000, large=large)
    message = failure([SOME], tmp_path, broken.url)
    whole_chunks = 100_000 // CHUNK * CHUNK  # 98,304
    assert "broke off after 98.3 kB of 200.0 kB" in message
    assert "Run again: it goes on from there" in message
    assert broken.gets()[0].range is None
    assert {one.range for one in broken.gets()[1:]} == {f"bytes={whole_chunks}-"}
    (part,) = parts(tmp_path)
    assert part.read_bytes() == CONTENT[:whole_chunks]

    sound = serve(large=large)
    (place,) = fetch([SOME], tmp_path, allowed=True, endpoint=sound.url)
    assert [one.range for one in sound.gets()] == [f"bytes={whole_chunks}-"]
    assert place.read_bytes() == CONTENT
    assert not parts(tmp_path)


def test_what_is_there_is_told_and_not_counted_as_to_come(
    serve: Callable[..., HubServer],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failure([SOME], tmp_path, serve(break_at=100_000).url)
    left = len(CONTENT) - 98_304
    room = shutil._ntuple_diskusage(1, 1, int(left * 1.05) + 1)  # type: ignore[attr-defined]
    monkeypatch.setattr("shutil.disk_usage", lambda path: room)
    with caplog.at_level(logging.INFO):
        fetch([SOME], tmp_path, allowed=True, endpoint=serve().url)
    assert "  shop/reviews: raw/meta.jsonl (98.3 kB of it are there)" in caplog.text


_FETCH_AND_HANG = """
import sys
from pathlib import Path
from huggingface_hub import constants
from memrerank.data.download import HubFile, fetch
constants.DOWNLOAD_CHUNK_SIZE = int(sys.argv[2])
file = HubFile("shop/reviews", ("raw/meta.jsonl",), Path("here"))
fetch([file], Path(sys.argv[1]), allowed=True)
"""


def test_a_killed_download_goes_on_from_where_it_was(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    hanging = serve(hang_at=150_000)
    command = [sys.executable, "-c", _FETCH_AND_HANG, str(tmp_path), str(CHUNK)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hanging.url}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not any(part.stat().st_size > CHUNK for part in parts(tmp_path)):
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGKILL)
    (part,) = parts(tmp_path)
    size = part.stat().st_size
    assert CHUNK < size <= 150_000
    sound = serve()
    (place,) = fetch([SOME], tmp_path, allowed=True, endpoint=sound.url)
    assert [one.range for one in sound.gets()] == [f"bytes={size}-"]
    assert place.read_bytes() == CONTENT


def test_runs_at_the_same_time_fetch_a_file_once(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    server = serve(hang_at=150_000)
    with ThreadPoolExecutor(2) as runs:
        both = [
            runs.submit(fetch, [SOME], tmp_path, allowed=True, endpoint=server.url) for _ in "ab"
        ]
        while [one.method for one in server.requests].count("POST") < 2 or not server.gets():
            server.closing.wait(0.01)
        assert len(server.gets()) == 1
        server.hang_at = None
        server.closing.set()  # breaks the connection; the client takes it up again
        places = [run.result() for run in both]
    assert places == [[tmp_path / "here/raw/meta.jsonl"]] * 2
    assert places[0][0].read_bytes() == CONTENT
    assert [one.range for one in server.gets()].count(None) == 1


def test_a_server_without_ranges_gives_the_whole_file_once(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    failure([SOME], tmp_path, serve(break_at=100_000).url)
    (place,) = fetch([SOME], tmp_path, allowed=True, endpoint=serve(ranges=False).url)
    assert place.read_bytes() == CONTENT


def test_a_part_of_another_version_is_dropped(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    failure([SOME], tmp_path, serve(break_at=100_000).url)
    changed = CONTENT[::-1]
    server = serve({"shop/reviews": {"raw/meta.jsonl": changed}})
    (place,) = fetch([SOME], tmp_path, allowed=True, endpoint=server.url)
    assert [one.range for one in server.gets()] == [None]
    assert place.read_bytes() == changed
    assert not parts(tmp_path)


def test_a_file_of_another_size_than_told_is_not_kept(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    server = serve(told_sizes={"raw/meta.jsonl": 200_001})
    message = failure([SOME], tmp_path, server.url)
    assert "has 200000 bytes where the hub told of 200001" in message
    assert SOME.find(tmp_path) is None
    assert not parts(tmp_path)


def test_a_file_with_another_sha256_than_told_is_not_kept(
    serve: Callable[..., HubServer], tmp_path: Path
) -> None:
    told = hashlib.sha256(b"something else").hexdigest()
    server = serve(large=frozenset({"raw/meta.jsonl"}), told_sha256={"raw/meta.jsonl": told})
    message = failure([SOME], tmp_path, server.url)
    assert f"does not have the sha256 that the hub told of, {told}" in message
    assert SOME.find(tmp_path) is None
    assert not parts(tmp_path)


# ---------------------------------------------------------------- refused


def test_without_leave_the_missing_files_are_listed(tmp_path: Path) -> None:
    files = [HubFile("shop/reviews", (f"{number:02}.csv", "b")) for number in range(13)]
    message = failure(files, tmp_path, None, allowed=False)
    assert message.splitlines() == [
        "data.download=false, and missing are",
        *(f"  {tmp_path}/{number:02}.csv" for number in range(10)),
        "  and 3 more",
        "Put them there, or set data.download=true to fetch them",
    ]


def test_offline_mode_is_kept(
    serve: Callable[..., HubServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    server = serve()
    message = failure([SOME], tmp_path, server.url)
    assert message.startswith("HF_HUB_OFFLINE is set")
    assert f"  {tmp_path}/here/raw/meta.jsonl" in message
    assert server.requests == []


def test_a_disk_that_is_too_small_is_told_before_anything_comes(
    serve: Callable[..., HubServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = shutil._ntuple_diskusage(1, 1, 209_999)  # type: ignore[attr-defined]  # 200,000 and 5%
    asked = []
    monkeypatch.setattr("shutil.disk_usage", lambda path: asked.append(path) or room)
    server = serve()
    message = failure([SOME], tmp_path / "not/yet", server.url)
    assert "200.0 kB are to be fetched" in message
    assert "make room for 210.0 kB, or set data.root=" in message
    assert asked == [tmp_path]
    assert server.gets() == []


def test_a_file_that_the_hub_lacks(serve: Callable[..., HubServer], tmp_path: Path) -> None:
    server = serve()
    absent = HubFile("shop/reviews", ("meta_Pens.jsonl", "meta_Pens.jsonl.gz"))
    message = failure([SOME, absent], tmp_path, server.url)
    assert "not on the hub:\n  shop/reviews: meta_Pens.jsonl or meta_Pens.jsonl.gz\n" in message
    assert server.gets() == []


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ((404, "RepoNotFound"), "is not on the hub, or not open to you (404)"),
        ((401, "RepoNotFound"), "is not on the hub, or not open to you (401)"),
        ((401, ""), "is refused (401): accept its terms on that page and log in with `hf auth"),
        ((403, "GatedRepo"), "is refused (403): accept its terms on that page and log in with"),
        ((403, ""), "is refused (403)"),
        ((500, ""), "answers 500 for shop/reviews: try again later"),
    ],
)
def test_a_data_set_that_is_refused(
    serve: Callable[..., HubServer], tmp_path: Path, refusal: tuple[int, str], said: str
) -> None:
    server = serve(refuse={"shop/reviews": refusal})
    message = failure([SOME], tmp_path, server.url)
    assert said in message
    assert f"To be fetched:\n  {tmp_path}/here/raw/meta.jsonl\nOr copy the files" in message
    if refusal[0] != 500:
        assert f"{server.url}/datasets/shop/reviews is " in message


def test_a_file_that_is_refused_after_its_size_was_told(
    serve: Callable[..., HubServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gated data set tells its sizes to all and its files to those who accepted its terms."""
    server = serve()

    def close_now(*args: object) -> Any:
        server.refuse["shop/reviews"] = (403, "GatedRepo")
        return shutil._ntuple_diskusage(1, 1, 10**9)  # type: ignore[attr-defined]

    monkeypatch.setattr("shutil.disk_usage", close_now)
    message = failure([SOME], tmp_path, server.url)
    assert f"{server.url}/datasets/shop/reviews is refused (403)" in message


def test_a_hub_that_cannot_be_reached(serve: Callable[..., HubServer], tmp_path: Path) -> None:
    server = serve()
    server.close()
    url = server.url.replace("http://", "http://me:word@")
    message = failure([SOME], tmp_path, url)
    assert message.startswith(f"{server.url} cannot be reached (ConnectError")
    assert f"To be fetched:\n  {tmp_path}/here/raw/meta.jsonl\n" in message
    assert "copy the files there yourself and set data.download=false" in message


def test_something_that_is_not_a_hub(
    serve: Callable[..., HubServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    monkeypatch.setattr(
        "hub_server.json.dumps", lambda answer: "<html>Log in to this network</html>"
    )
    assert f"{server.url} does not answer as the hub does (" in failure(
        [SOME], tmp_path, server.url
    )


def test_a_folder_that_cannot_be_written(serve: Callable[..., HubServer], tmp_path: Path) -> None:
    (tmp_path / "here").write_text("a file where a folder should be")
    message = failure([SOME], tmp_path, serve().url)
    assert message.startswith(f"{tmp_path}/here/raw/meta.jsonl could not be written in full (")
