"""Stores of vectors, and shards on disk that are whole or not there."""

import logging

import numpy as np
import pytest

from memrerank.retrieval.vectors import ShardFolder, VectorStore


def test_blocks_follow_each_other_and_stay_within_the_limit():
    rows = np.arange(20, dtype=np.float16).reshape(10, 2)
    store = VectorStore([rows[:5], rows[5:6], rows[6:]])
    assert (store.rows, store.dims) == (10, 2)
    blocks = list(store.blocks(max_bytes=3 * 2 * 4))  # three rows as float32
    assert [(start, len(block)) for start, block in blocks] == [
        (0, 3),
        (3, 2),
        (5, 1),
        (6, 3),
        (9, 1),
    ]
    assert np.array_equal(np.concatenate([block for _, block in blocks]), rows)


def test_a_limit_below_one_row_gives_single_rows():
    store = VectorStore([np.zeros((3, 100), dtype=np.float32)])
    assert [start for start, _ in store.blocks(1)] == [0, 1, 2]


def test_read_gives_float32():
    vectors = VectorStore([np.float16([[0.5, 1]]), np.float16([[2, 3]])]).read()
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[0.5, 1], [2, 3]]


def test_a_shard_comes_back_memory_mapped(tmp_path):
    folder = ShardFolder(tmp_path)
    assert folder.load(7, 2, "float16") is None
    folder.write(7, np.float16([[1, 2], [3, 4]]))
    shard = folder.load(7, 2, "float16")
    assert isinstance(shard, np.memmap)
    assert shard.tolist() == [[1, 2], [3, 4]]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "shard-00007.npy",
        "shard-00007.npy.json",
    ]


def test_a_shard_without_its_record_is_not_there(tmp_path):
    """A run that is killed between the two leaves this."""
    folder = ShardFolder(tmp_path)
    folder.write(0, np.float16([[1]]))
    (tmp_path / "shard-00000.npy.json").unlink()
    assert folder.load(0, 1, "float16") is None


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("truncated", "its bytes have changed"),
        ("one byte", "its bytes have changed"),
        ("record", "JSONDecodeError"),
        ("record without hash", "KeyError"),
        ("dtype", "it holds float32 (2, 3), not float16 of 2 rows"),
        ("rows", "it holds float16 (5, 3), not float16 of 2 rows"),
    ],
)
def test_damage_is_told_and_the_shard_counts_as_missing(tmp_path, caplog, damage, told):
    folder = ShardFolder(tmp_path)
    folder.write(0, np.ones((2, 3), dtype=np.float16))
    path = folder.path(0)
    data = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(data[:-1])
    elif damage == "one byte":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "record":
        path.with_name("shard-00000.npy.json").write_text("{")
    elif damage == "record without hash":
        path.with_name("shard-00000.npy.json").write_text("{}")
    elif damage == "dtype":
        folder.write(0, np.ones((2, 3), dtype=np.float32))
    else:
        folder.write(0, np.ones((5, 3), dtype=np.float16))
    with caplog.at_level(logging.WARNING):
        assert folder.load(0, 2, "float16") is None
    assert str(path) in caplog.text
    assert told in caplog.text
