"""The index built in blocks against bm25s's own, and what is kept of it on disk."""

import hashlib
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import bm25s
import numpy as np
import pytest
import Stemmer
from bm25s.tokenization import Tokenized, Tokenizer

from memrerank.data.corpus import Corpus
from memrerank.retrieval import bm25_index
from memrerank.retrieval.bm25 import BM25Retriever
from memrerank.retrieval.bm25_index import build_index
from memrerank.schema import Product, Query
from memrerank.seeding import numpy_generator

QUERY = Query("q", "w1 w2 w3 w300", "u", "p", "Shop", 1)

INDEXING = """
import sys, time
from pathlib import Path
from unittest import mock
sys.path.insert(0, sys.argv[1])
from test_bm25_index import corpus, keep

def hang(*arguments, **keywords):
    print("hanging", flush=True)
    time.sleep(60)

if len(sys.argv) > 3:
    mock.patch(sys.argv[3], hang).start()
keep(corpus(), Path(sys.argv[2]))
"""


def corpus() -> Corpus:
    """60 products of 0 to 90 words, some of them many times in one product."""
    generator = numpy_generator(0, "texts")
    words = [f"W{number}" for number in generator.zipf(1.3, size=4000) if number < 1000]
    texts = [
        " ".join(generator.choice(words, size=generator.integers(0, 90)))
        + " same" * (300 * (n == 7))
        for n in range(60)
    ]
    return Corpus.of(Product(f"p{n:02}", text, "", "Shop") for n, text in enumerate(texts))


def keep(products: Corpus, folder: Path) -> tuple[str, ...]:
    """Indexes and searches; the pool of the one query."""
    return BM25Retriever(cache_dir=folder).search(products, [QUERY], 20)[0].product_ids


def hashes(folder: Path) -> dict[str, str]:
    (index,) = (path for path in (folder / "bm25").iterdir() if not path.name.startswith("."))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in index.iterdir()}


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("stemmer", [None, Stemmer.Stemmer("english")])
def test_the_index_is_that_of_bm25s_however_it_is_cut_into_blocks(monkeypatch, rows, stemmer):
    monkeypatch.setattr(bm25_index, "ROWS_PER_BATCH", rows)
    products = corpus()
    ours = build_index(products, Tokenizer(stopwords=["w2"], stemmer=stemmer), k1=1.2, b=0.6)
    tokenizer = Tokenizer(stopwords=["w2"], stemmer=stemmer)
    ids = tokenizer.tokenize(products.texts(0, 60), allow_empty=False, show_progress=False)
    theirs = bm25s.BM25(method="lucene", k1=1.2, b=0.6)
    theirs.index(
        Tokenized(ids, tokenizer.get_vocab_dict()), create_empty_token=False, show_progress=False
    )
    assert ours.vocab_dict == theirs.vocab_dict
    assert ours.scores["num_docs"] == 60
    for part in ("indices", "indptr"):
        np.testing.assert_array_equal(ours.scores[part], theirs.scores[part])
        assert ours.scores[part].dtype == theirs.scores[part].dtype
    np.testing.assert_allclose(ours.scores["data"], theirs.scores["data"], rtol=3e-7)
    assert ours.scores["data"].dtype == theirs.scores["data"].dtype


@pytest.mark.parametrize(
    "moment",
    [
        "memrerank.retrieval.bm25_index.count_block",  # nothing is on disk
        "bm25s.json.dump",  # the arrays are written, the parameters are not
        "memrerank.retrieval.bm25_store.write_json",  # all is written but the record
    ],
)
def test_after_a_kill_the_next_run_makes_the_files_of_an_undisturbed_one(tmp_path, moment):
    keep(corpus(), tmp_path / "undisturbed")
    script = [sys.executable, "-c", INDEXING, str(Path(__file__).parent), str(tmp_path / "killed")]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    child = subprocess.Popen([*script, moment], stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    assert child.stdout.readline() == "hanging\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    left = list((tmp_path / "killed" / "bm25").iterdir())
    assert all(path.name.startswith(".") for path in left)  # nothing that passes for an index
    subprocess.run(script, check=True, env=environment)
    assert hashes(tmp_path / "killed") == hashes(tmp_path / "undisturbed")
    assert not list((tmp_path / "killed" / "bm25").glob(".*.tmp"))


@pytest.mark.parametrize(
    "damage", ["changed", "cut", "missing", "added", "no record", "odd record"]
)
def test_a_damaged_index_is_named_and_made_again(tmp_path, caplog, damage):
    products = corpus()
    expected = keep(products, tmp_path)
    whole = hashes(tmp_path)
    (data,) = (tmp_path / "bm25").glob("*/data.csc.index.npy")
    record, content = data.with_name("sha256.json"), data.read_bytes()
    {
        "changed": lambda: data.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]),
        "cut": lambda: data.write_bytes(content[:-20]),
        "missing": data.unlink,
        "added": lambda: data.with_name("nonoccurrence_array.index.npy").write_bytes(content),
        "no record": record.unlink,
        "odd record": lambda: record.write_text("[]"),
    }[damage]()
    with caplog.at_level(logging.WARNING):
        assert keep(products, tmp_path) == expected
    assert str(data.parent) in caplog.text
    assert hashes(tmp_path) == whole
    caplog.clear()
    assert keep(products, tmp_path) == expected
    assert caplog.text == ""


def test_a_kept_index_is_searched_without_the_products_and_holds_no_text(tmp_path, monkeypatch):
    products = corpus()
    expected = keep(products, tmp_path)
    monkeypatch.setattr(Corpus, "texts", None)
    assert keep(products, tmp_path) == expected
    assert set(hashes(tmp_path)) == {
        "data.csc.index.npy",
        "indices.csc.index.npy",
        "indptr.csc.index.npy",
        "params.index.json",
        "sha256.json",
        "vocab.index.json",
    }
