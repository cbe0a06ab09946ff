"""`nearest` against a brute-force sort, with ties wherever blocks could get them wrong."""

import faiss
import numpy as np
import pytest

from memrerank.errors import DataError
from memrerank.retrieval import search
from memrerank.retrieval.search import nearest
from memrerank.retrieval.vectors import VectorStore
from memrerank.seeding import numpy_generator


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def brute_force(queries: np.ndarray, products: np.ndarray, order: np.ndarray, k: int) -> np.ndarray:
    scores = np.round(queries.astype(np.float64) @ products.astype(np.float64).T, 6)
    return np.array([np.lexsort((order, -row))[:k] for row in scores])


def bytes_of(rows: int, dims: int) -> int:
    return rows * dims * 4


@pytest.fixture
def duplicates() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """7 queries; 600 products that share 60 vectors, scattered; a shuffled order."""
    generator = numpy_generator(0, "duplicates")
    products = unit(generator.normal(size=(60, 8)))[generator.integers(0, 60, size=600)]
    return unit(generator.normal(size=(7, 8))), products, generator.permutation(600)


@pytest.mark.parametrize("k", [1, 9, 10, 100, 599, 600, 1000])
@pytest.mark.parametrize("block", [1, 7, 64, 600, 5000])
def test_agrees_with_brute_force_whatever_the_block(duplicates, k, block):
    queries, products, order = duplicates
    places = nearest(queries, products, order, k, bytes_of(block, 8))
    assert np.array_equal(places, brute_force(queries, products, order, k))


def test_shards_of_any_size_and_half_precision_change_nothing(duplicates):
    queries, products, order = duplicates
    halves = products.astype(np.float16)
    store = VectorStore([halves[:1], halves[1:400], halves[400:]])
    expected = brute_force(queries, halves, order, 50)
    assert np.array_equal(nearest(queries, store, order, 50, bytes_of(33, 8)), expected)


@pytest.mark.parametrize("block", [3, 500])
def test_ties_go_by_the_order_however_many_there_are(block):
    products = np.tile(np.float32([[1, 0]]), (500, 1))
    order = numpy_generator(0, "order").permutation(500)
    (places,) = nearest(np.float32([[1, 0]]), products, order, 30, bytes_of(block, 2))
    assert order[places].tolist() == list(range(30))


def test_scores_that_agree_to_six_decimals_are_ties():
    products = np.float32([[0.5000002], [0.5], [0.500002], [0.4999998]])
    order = np.array([3, 2, 1, 0])
    (places,) = nearest(np.float32([[1]]), products, order, 4)
    assert places.tolist() == [2, 3, 1, 0]  # the third is better; the others tie


def test_negative_scores_are_ranked_too():
    products = np.float32([[-0.3], [-0.1], [-0.2], [-0.1]])
    (places,) = nearest(np.float32([[1]]), products, np.arange(4)[::-1], 3, bytes_of(1, 1))
    assert places.tolist() == [3, 1, 2]


def test_products_that_get_better_and_better_all_enter():
    """Every block beats the last, so that what passes the threshold is dense, not sparse."""
    products = np.linspace(-1, 1, 3000, dtype=np.float32)[:, None]
    (places,) = nearest(np.float32([[1]]), products, np.arange(3000), 5, bytes_of(100, 1))
    assert places.tolist() == [2999, 2998, 2997, 2996, 2995]


def test_many_queries_go_in_tiles(monkeypatch, duplicates):
    queries, products, order = duplicates
    monkeypatch.setattr(search, "TILE_QUERIES", 3)
    monkeypatch.setattr(search, "TILE_ROWS", 50)
    places = nearest(queries, products, order, 20)
    assert np.array_equal(places, brute_force(queries, products, order, 20))


def test_no_queries_have_no_places():
    products = np.float32([[1, 0], [0, 1]])
    assert nearest(np.empty((0, 2), np.float32), products, np.arange(2), 1).shape == (0, 1)


def test_equal_vectors_tie_wherever_they_lie():
    """Their float32 scores differ in the last bits from block to block; ranks must not."""
    generator = numpy_generator(0, "wide")
    products = np.tile(unit(generator.normal(size=(300, 384))), (4, 1))  # each vector four times
    queries = unit(generator.normal(size=(40, 384)))
    order = np.arange(1200)
    expected = brute_force(queries, products, order, 100)
    for block in (1, 7, 100, 1200):
        places = nearest(queries, products, order, 100, bytes_of(block, 384))
        assert np.array_equal(places, expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e4])
def test_scores_that_no_normalised_vectors_have_are_refused(value):
    products = np.float32([[1], [value]])
    with pytest.raises(DataError, match=r"not finite or beyond 2,147.*vector_dtype=float32"):
        nearest(np.float32([[1]]), products, np.arange(2), 2)


def test_a_query_that_is_not_finite_is_refused():
    with pytest.raises(DataError, match=r"query's vector is not finite"):
        nearest(np.float32([[np.nan]]), np.float32([[1]]), np.arange(1), 1)


@pytest.fixture
def fake_gpu(monkeypatch) -> list[int]:
    """FAISS's CPU search in place of its GPU's; the widths that were asked for."""
    widths: list[int] = []

    def knn_gpu(resources, queries, vectors, width, metric):
        widths.append(width)
        return faiss.knn(queries, vectors, width, metric=metric)

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "knn_gpu", knn_gpu, raising=False)
    return widths


@pytest.mark.parametrize("block", [64, 600])
def test_a_gpu_gives_the_same_places(duplicates, fake_gpu, block):
    queries, products, order = duplicates
    places = nearest(queries, products, order, 9, bytes_of(block, 8))
    assert np.array_equal(places, brute_force(queries, products, order, 9))
    assert set(fake_gpu) <= {9 + search.TIE_MARGIN, 600 % block}


def test_ties_that_a_gpu_cuts_off_are_found(fake_gpu):
    products = np.tile(np.float32([[1, 0]]), (500, 1))
    order = np.arange(500)[::-1]
    queries = np.float32([[1, 0], [0, 1]])
    places = nearest(queries, products, order, 3, bytes_of(250, 2))
    assert places.tolist() == [[499, 498, 497], [499, 498, 497]]
    assert fake_gpu == [3 + search.TIE_MARGIN] * 2


def test_more_than_a_gpu_can_fetch_goes_to_the_cpu(fake_gpu):
    products = unit(numpy_generator(0, "wide").normal(size=(2500, 4)))
    order = np.arange(2500)
    places = nearest(products[:2], products, order, 2040)
    assert np.array_equal(places, brute_force(products[:2], products, order, 2040))
    assert fake_gpu == []
