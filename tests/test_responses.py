"""The file of answers: what it keeps, who may share it, and what it says when it cannot be used."""

import multiprocessing
import os
import resource
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from memrerank import responses
from memrerank.errors import JudgeError
from memrerank.responses import ResponseStore

NOBODY = 65534  # a user without rights
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "answers.sqlite"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def in_child(work: Callable[..., None], *arguments: object, count: int = 1) -> None:
    """Runs `work(number, *arguments)` in forked processes, all of which must succeed."""
    children = [FORK.Process(target=work, args=(i, *arguments)) for i in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * count


def drop_rights() -> None:
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def test_values_come_back_and_a_first_one_stays(path: Path) -> None:
    store = ResponseStore(path)
    assert store.write({"a": {"x": [1, None, 1 / 3]}, "b": "text"}) == 2
    assert store.read(["b", "missing", "a"]) == {"a": {"x": [1, None, 1 / 3]}, "b": "text"}
    assert store.write({"a": 2, "c": 3}) == 1
    assert store.read(["a"]) == {"a": {"x": [1, None, 1 / 3]}}
    assert store.write({"a": 2}, replace=True) == 1
    assert ResponseStore(path, readonly=True).read(["a", "c"]) == {"a": 2, "c": 3}
    assert store.write({}) == 0


def test_rows_come_in_order_of_key_and_in_parts(path: Path) -> None:
    store = ResponseStore(path)
    store.write({key: key for key in "dbeac"})
    parts = list(store.rows(size=2))
    assert parts == [[("a", '"a"'), ("b", '"b"')], [("c", '"c"'), ("d", '"d"')], [("e", '"e"')]]


def test_more_keys_than_one_statement_takes(path: Path) -> None:
    store = ResponseStore(path)
    store.write({f"{i}": i for i in range(1201)})
    assert store.read([f"{i}" for i in range(1300)]) == {f"{i}": i for i in range(1201)}


def test_text_that_is_no_unicode_is_kept(path: Path) -> None:
    store = ResponseStore(path)
    store.write({"a": {"answer": "half a pair \ud83d, an umlaut ü"}})
    assert store.read(["a"]) == {"a": {"answer": "half a pair \ud83d, an umlaut ü"}}


# ---------------------------------------------------------------- shared


def _write_own(number: int, folder: Path, files: int, barrier: Barrier) -> None:
    for i in range(files):
        barrier.wait()
        ResponseStore(folder / f"{i}").write({f"{number}": i, "same": number})


def test_processes_that_make_a_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    in_child(_write_own, tmp_path, 100, FORK.Barrier(6, timeout=10), count=6)
    for i in range(100):
        keys = [key for part in ResponseStore(tmp_path / f"{i}").rows() for key, _ in part]
        assert keys == ["0", "1", "2", "3", "4", "5", "same"]


def test_threads_share_a_store(path: Path) -> None:
    store = ResponseStore(path)

    def work(number: int) -> int:
        for i in range(20):
            mine = {f"{number}-{i}-{j}": j for j in range(100)}
            assert store.write(mine) == 100
            assert store.read(list(mine)) == mine
        return store.write({"same": number})

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 1
    assert sum(len(part) for part in store.rows()) == 16_001


def _use_inherited(number: int, store: ResponseStore) -> None:
    store.write({f"child {number}": number})
    parents = responses._INHERITED[-1].connection
    assert parents is not None
    assert parents is not store._held.connection
    parents.execute("SELECT 1")  # still open: closing it is the parent's affair
    store.close()


def test_a_forked_process_opens_a_connection_of_its_own(path: Path) -> None:
    store = ResponseStore(path)
    store.write({"parent": 0})
    in_child(_use_inherited, store, count=2)
    store.write({"parent again": 1})
    expected = {"parent": 0, "child 0": 0, "child 1": 1, "parent again": 1}
    assert store.read(list(expected)) == expected


def test_a_file_that_stays_locked_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ResponseStore(path).write({"a": 1})
    monkeypatch.setattr(responses, "LOCK_SECONDS", 0.05)
    store = ResponseStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JudgeError, match=r"answers\.sqlite: .*database is locked.*another process"):
        store.write({"b": 2})
    assert store.read(["a"]) == {"a": 1}  # readers do not wait
    other.execute("ROLLBACK")
    other.close()
    assert store.write({"b": 2}) == 1


# ---------------------------------------------------------------- unusable files


def _fill(_: int, path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    store = ResponseStore(path)
    written: list[int] = []

    def fill() -> None:
        for i in range(1000):
            store.write({f"{i}": "x" * 1000})
            written.append(i)

    with pytest.raises(JudgeError, match=r"answers\.sqlite: .*(disk|full).*free space"):
        fill()
    assert 0 < len(written) < 1000
    assert sum(len(part) for part in store.rows()) == len(written)


def test_a_full_disk_is_told_and_takes_nothing_that_was_written(path: Path) -> None:
    in_child(_fill, path)
    ResponseStore(path).write({"and then": "some room"})


def _read_only(_: int, path: Path) -> None:
    drop_rights()
    assert ResponseStore(path, readonly=True).read(["a"]) == {"a": 1}
    with pytest.raises(JudgeError, match=r"answers\.sqlite: .*readonly.*may read and write"):
        ResponseStore(path).write({"b": 2})


def test_a_folder_that_cannot_be_written_can_be_read(open_folder: Path) -> None:
    path = open_folder / "answers.sqlite"
    store = ResponseStore(path)
    store.write({"a": 1})
    for whole in (False, True):  # with the log beside the file, and with all in the file
        if whole:
            store.close()
        assert path.with_name("answers.sqlite-wal").exists() is not whole
        open_folder.chmod(0o555)
        in_child(_read_only, path)
        open_folder.chmod(0o755)


def _read_log_alone(_: int, path: Path) -> None:
    drop_rights()
    with pytest.raises(JudgeError, match=r"answers\.sqlite: not usable.*may read and write"):
        ResponseStore(path, readonly=True).read(["b"])


def test_a_log_that_cannot_be_read_is_not_passed_over(open_folder: Path) -> None:
    path = open_folder / "answers.sqlite"
    store = ResponseStore(path)
    store.write({"a": 1})
    store.close()
    store.write({"b": 2})  # in the log alone
    copy = open_folder / "copy" / "answers.sqlite"
    copy.parent.mkdir()
    for name in ("answers.sqlite", "answers.sqlite-wal"):  # as after a kill, less the index
        (copy.parent / name).write_bytes((open_folder / name).read_bytes())
    copy.parent.chmod(0o555)
    in_child(_read_log_alone, copy)
    copy.parent.chmod(0o755)


@pytest.mark.parametrize("readonly", [False, True])
def test_the_file_of_another_program_is_left_alone(tmp_path: Path, readonly: bool) -> None:
    path = tmp_path / "mlflow.db"
    for table in ("runs (id INTEGER)", "answers (id INTEGER)"):
        with sqlite3.connect(path) as connection:
            connection.execute(f"CREATE TABLE {table}")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(JudgeError, match=r"mlflow\.db: .*it holds .*runs\); name another"):
            ResponseStore(path, readonly=readonly).read(["a"])
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["mlflow.db"]


def make_folder(path: Path) -> None:
    path.mkdir(parents=True)


def make_text(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("some text\n" * 1000)


def make_cut_off(path: Path) -> None:
    store = ResponseStore(path)
    store.write({f"{i:03}": "x" * 1000 for i in range(200)})
    store.close()
    os.truncate(path, 60_000)


def make_scrambled(path: Path) -> None:
    store = ResponseStore(path)
    store.write({f"{i:03}": "x" * 1000 for i in range(200)})
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 100_000)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (make_folder, "is a folder; name a file"),
        (make_text, "not a database.*restore a copy"),
        (make_cut_off, "malformed.*restore a copy"),
        (make_scrambled, "malformed.*restore a copy"),
    ],
)
def test_what_is_no_store_is_told(
    path: Path, make: Callable[[Path], None], told: str, readonly: bool
) -> None:
    make(path)
    store = ResponseStore(path, readonly=readonly)
    for _ in range(2):  # whatever was left of the first try
        with pytest.raises(JudgeError, match=rf"answers\.sqlite: .*{told}"):
            list(store.rows())


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JudgeError, match=r"file/answers\.sqlite: its folder cannot be made"):
        ResponseStore(tmp_path / "file" / "answers.sqlite").read(["a"])


def test_an_empty_file_is_a_store_to_write_and_none_to_read(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.touch()
    with pytest.raises(JudgeError, match=r"answers\.sqlite: .*it holds nothing"):
        ResponseStore(path, readonly=True).read(["a"])
    assert ResponseStore(path).write({"a": 1}) == 1


@pytest.mark.parametrize("value", ["{", "", b"\xff\xfe"])
def test_a_value_that_is_no_json_is_named(path: Path, value: str | bytes) -> None:
    store = ResponseStore(path)
    store.write({"a" * 64: 1})
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET value = ?", (value,))
    connection.close()
    with pytest.raises(JudgeError, match=r"answers\.sqlite: the record a{16}\.\.\. is no JSON"):
        store.read(["a" * 64])


def test_vacuum_gives_the_space_back(path: Path) -> None:
    store = ResponseStore(path)
    store.write({f"{i}": "x" * 1000 for i in range(500)})
    store.write({f"{i}": "y" for i in range(500)}, replace=True)
    store.vacuum()
    assert path.stat().st_size < 100_000
    assert store.read(["499"]) == {"499": "y"}
