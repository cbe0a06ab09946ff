"""sample_instances on hand-made pools: bands, eligibility, distinctness, seeds."""

from collections import Counter

import pytest

from memrerank.data.instances import sample_instances
from memrerank.errors import ConfigError
from memrerank.schema import Pool, Product, Query, SetwiseInstance


def query(id: str = "q", positive: str = "p30") -> Query:
    return Query(id, "a pen", "u", positive, "Pens", 1)


def pool(size: int, query_id: str = "q", retriever: str = "bm25") -> Pool:
    """A pool whose product at rank r is called p{r}."""
    return Pool(query_id, retriever, tuple(f"p{rank}" for rank in range(1, size + 1)))


POOLS = {"q": pool(100)}
CORPUS = {f"p{rank}": Product(f"p{rank}", f"Pen {rank}", "", "Pens") for rank in range(1, 101)}


def ranks(instance: SetwiseInstance) -> list[int]:
    """The retriever's ranks of the negatives, sorted."""
    negatives = [one for at, one in enumerate(instance.candidates) if at != instance.positive]
    return sorted(int(product.id[1:]) for product in negatives)


@pytest.mark.parametrize("positive", ["p1", "p20", "p30", "p51", "p100"])
def test_negatives_come_from_the_papers_bands(positive):
    drawn = sample_instances([query(positive=positive)], POOLS, CORPUS, per_pair=40, seed=0)
    assert len(drawn.instances) == 40
    for instance in drawn.instances:
        assert instance.candidates[instance.positive].id == positive
        assert len({product.id for product in instance.candidates}) == 5
        first, second, third, fourth = ranks(instance)
        assert 1 <= first < second <= 20 < third <= 50 < fourth <= 100
    assert drawn.counts["pairs_eligible"] == 1
    assert drawn.counts["instances"] == 40
    assert drawn.counts["instances_with_repeated_negatives"] == 0


def test_every_rank_of_a_band_is_drawn_and_every_place_is_used():
    instances = sample_instances([query()], POOLS, CORPUS, per_pair=600, seed=0).instances
    drawn = Counter(rank for instance in instances for rank in ranks(instance))
    assert set(drawn) == set(range(1, 101)) - {30}
    places = Counter(instance.positive for instance in instances)
    assert set(places) == {0, 1, 2, 3, 4}
    assert min(places.values()) > 80  # 120 expected, standard deviation 10


def test_ids_are_query_retriever_number_and_products_come_from_the_corpus():
    instance = sample_instances([query()], POOLS, CORPUS, per_pair=2, seed=0).instances[1]
    assert instance.id == "q/bm25/1"
    assert (instance.query_id, instance.retriever) == ("q", "bm25")
    assert all(CORPUS[product.id] is product for product in instance.candidates)


def test_an_instance_depends_on_its_own_names_and_not_on_the_others():
    queries = [query("a"), query("b")]
    pools = {"a": pool(100, "a"), "b": pool(100, "b")}
    both = sample_instances(queries, pools, CORPUS, per_pair=3, seed=5).instances
    assert sample_instances(queries[1:], pools, CORPUS, per_pair=3, seed=5).instances == both[3:]
    assert sample_instances(queries[1:], pools, CORPUS, per_pair=2, seed=5).instances == both[3:5]
    assert [ranks(one) for one in both[:3]] != [ranks(one) for one in both[3:]]
    reseeded = sample_instances(queries, pools, CORPUS, per_pair=3, seed=6).instances
    assert [ranks(one) for one in reseeded] != [ranks(one) for one in both]
    renamed = {"a": pool(100, "a", "minilm"), "b": pool(100, "b", "minilm")}
    other = sample_instances(queries, renamed, CORPUS, per_pair=3, seed=5).instances
    assert [ranks(one) for one in other] != [ranks(one) for one in both]


def test_pairs_without_the_positive_or_with_too_small_a_pool_are_counted():
    queries = [query("miss", "p60"), query("tiny", "p1"), query("five", "p2"), query("fine", "p3")]
    pools = {
        "miss": pool(50, "miss"),
        "tiny": pool(4, "tiny"),
        "five": pool(5, "five"),
        "fine": pool(100, "fine"),
    }
    drawn = sample_instances(queries, pools, CORPUS, per_pair=2, seed=0)
    assert drawn.counts == {
        "pairs_dropped_positive_not_in_pool": 1,
        "pairs_dropped_pool_too_small": 1,
        "pairs_eligible": 2,
        "instances_with_repeated_negatives": 1,  # a pool of five has one set of negatives
        "instances": 4,
    }
    assert [instance.query_id for instance in drawn.instances] == ["five", "five", "fine", "fine"]
    assert ranks(drawn.instances[0]) == ranks(drawn.instances[1]) == [1, 3, 4, 5]


def test_short_pools_take_what_the_bands_allow_and_fill_from_the_rest():
    drawn = sample_instances([query(positive="p3")], {"q": pool(22)}, CORPUS, per_pair=30, seed=0)
    for instance in drawn.instances:
        assert len(set(ranks(instance))) == 4
        assert any(rank in (21, 22) for rank in ranks(instance))  # the second band has only these
    # 8 products: 7 choose 4 = 35 sets of negatives, 20 of them are drawn without repeats
    small = sample_instances([query(positive="p3")], {"q": pool(8)}, CORPUS, per_pair=20, seed=0)
    assert small.counts["instances_with_repeated_negatives"] == 0
    assert len({tuple(ranks(instance)) for instance in small.instances}) == 20


def test_wrong_calls_are_refused():
    with pytest.raises(ConfigError, match="per pair = 0"):
        sample_instances([query()], POOLS, CORPUS, per_pair=0, seed=0)
    with pytest.raises(ConfigError, match="query q has no pool"):
        sample_instances([query()], {}, CORPUS, per_pair=1, seed=0)
