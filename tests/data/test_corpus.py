"""The memory-mapped corpus against a plain dict of the same products."""

from pathlib import Path

import pytest

from memrerank.data import corpus as module
from memrerank.data.corpus import Corpus, as_corpus, write_corpus
from memrerank.schema import Product

IDS = sorted(["B01", "B1", "B10", "B2", "Ba", "bé", "ü", "z", "~"])
PRODUCTS = {id: Product(id, f"Title {id}", f"Words of {id}" * (id != "B2"), "Pens") for id in IDS}


@pytest.fixture(params=["file", "memory"])
def corpus(request, tmp_path: Path, monkeypatch) -> Corpus:
    monkeypatch.setattr(module, "ROWS_PER_BATCH", 4)  # nine products: two full blocks and a rest
    if request.param == "memory":
        return Corpus.of(reversed(PRODUCTS.values()))
    assert write_corpus(tmp_path / "corpus.arrow", PRODUCTS.values()) == 9
    return Corpus.open(tmp_path / "corpus.arrow", "print")


def test_it_is_the_mapping_that_it_was_made_from(corpus: Corpus):
    assert dict(corpus.items()) == PRODUCTS
    assert list(corpus) == IDS
    assert list(corpus.values()) == list(PRODUCTS.values())
    assert len(corpus) == 9
    assert all(corpus[id] == product for id, product in PRODUCTS.items())


@pytest.mark.parametrize("id", ["", "A", "B011", "B11", "{", "ÿ", "\U0001f600"])
def test_ids_that_are_not_there(corpus: Corpus, id: str):
    assert id not in corpus
    with pytest.raises(KeyError):
        corpus[id]


def test_rows_of_any_range_across_blocks(corpus: Corpus):
    texts = [product.text for product in PRODUCTS.values()]
    for start in range(10):
        for stop in range(start, 12):
            assert corpus.texts(start, stop) == texts[start:stop]


def test_an_empty_corpus(tmp_path: Path):
    write_corpus(tmp_path / "corpus.arrow", [])
    for empty in (Corpus.of([]), Corpus.open(tmp_path / "corpus.arrow", "print")):
        assert (len(empty), list(empty), list(empty.values()), "x" in empty) == (0, [], [], False)


@pytest.mark.parametrize("ids", [["b", "a"], ["a", "a"]])
def test_products_that_are_not_sorted_are_refused_and_leave_no_file(tmp_path: Path, ids):
    with pytest.raises(ValueError, match="ids must rise"):
        write_corpus(tmp_path / "c.arrow", [Product(id, "t", "", "c") for id in ids])
    assert list(tmp_path.iterdir()) == []


def test_the_fingerprint_changes_with_ids_and_texts_and_not_with_order():
    one, two = Product("a", "One", "", "c"), Product("b", "Two", "", "c")
    base = Corpus.of([one, two]).fingerprint
    assert Corpus.of([two, one]).fingerprint == base
    others = [
        [one],
        [one, Product("c", "Two", "", "c")],
        [one, Product("b", "Two", "more", "c")],
        [Product("a", "One\x1eb\x1fTwo", "", "c")],
    ]
    assert len({Corpus.of(products).fingerprint for products in others} | {base}) == 5


def test_a_corpus_is_not_made_again_of_itself():
    corpus = Corpus.of(PRODUCTS.values())
    assert as_corpus(corpus) is corpus
    assert dict(as_corpus(PRODUCTS).items()) == PRODUCTS
