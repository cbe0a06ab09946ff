"""load_benchmark on hand-made shops: joins, time, caps, counts and the fingerprint."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from raw_records import item, load_benchmark, product, review, write_lines

from memrerank.errors import ConfigError, DataError
from memrerank.schema import Benchmark, Purchase, Query, Split

SETTINGS: dict[str, Any] = {"max_history": 3, "max_words": 120, "seed": 0, "source": "test"}


def load(root: Path, category: str = "Pens", **changes: Any) -> Benchmark:
    return load_benchmark(root, category, **{**SETTINGS, **changes})


def all_queries(benchmark: Benchmark) -> dict[str, Query]:
    return {query.id: query for queries in benchmark.queries.values() for query in queries}


def bought(purchases: tuple[Purchase, ...]) -> list[tuple[str, int]]:
    return [(purchase.product.id, purchase.timestamp) for purchase in purchases]


# Fillers: two sound shoppers, so that three splits can be made.
FILL_REVIEWS = [review(u, p, t) for u in ("f1", "f2") for p, t in (("x", 5), (f"{u}-pos", 9))]
FILL_QUERIES = [("qf1", "pen one", "f1-pos", "f1"), ("qf2", "pen two", "f2-pos", "f2")]
FILL_PRODUCTS = [product("x"), product("f1-pos"), product("f2-pos")]


@pytest.fixture
def shop_of(make_store: Callable[..., Path]) -> Callable[..., Path]:
    """A shop around one shopper `u` whose query q has the positive `pos`, bought at 100."""

    def make(
        pens: list[Any],
        inks: list[Any] | None = None,
        described: list[Any] | None = None,
        items: list[Any] | None = None,
        queries: list[tuple[str, ...]] | None = None,
    ) -> Path:
        ids = {one["parent_asin"] for one in (*pens, *(inks or []))}
        return make_store(
            reviews={"Pens": [*FILL_REVIEWS, *pens]} | ({"Inks": inks} if inks else {}),
            metadata={
                "Pens": [*FILL_PRODUCTS, *map(product, sorted(ids))]
                if described is None
                else [*FILL_PRODUCTS, *described],
            },
            queries=[*FILL_QUERIES, ("q", "a  blue\n pen", "pos", "u"), *(queries or [])],
            items=[item("pos", "Pool pos")] if items is None else items,
        )

    return make


def test_history_is_strictly_before_the_target_without_the_positive_oldest_first(shop_of):
    root = shop_of(
        pens=[
            review("u", "pos", 100),
            review("u", "same-time", 100),
            review("u", "later", 101),
            review("u", "b", 50),
            review("u", "a", 50),
            review("u", "old", 7),
            review("other", "stranger", 8),
        ],
        inks=[review("u", "ink", 99), review("u", "late-ink", 100)],
    )
    benchmark = load(root)
    history = benchmark.histories["q"]
    assert bought(history.within) == [("old", 7), ("a", 50), ("b", 50)]
    assert bought(history.cross) == [("ink", 99)]
    assert (history.user_id, history.category) == ("u", "Pens")
    assert all_queries(benchmark)["q"] == Query("q", "a blue pen", "u", "pos", "Pens", 100)


def test_target_time_is_the_earliest_review_of_the_positive(shop_of):
    pens = [review("u", "pos", 100), review("u", "pos", 40), review("u", "mid", 60)]
    benchmark = load(shop_of(pens=[*pens, review("u", "old", 30)]))
    assert all_queries(benchmark)["q"].timestamp == 40
    assert bought(benchmark.histories["q"].within) == [("old", 30)]


def test_positive_bought_in_another_category_before_is_no_history(shop_of):
    root = shop_of(
        pens=[review("u", "pos", 100), review("u", "old", 30)], inks=[review("u", "pos", 20)]
    )
    benchmark = load(root)
    assert bought(benchmark.histories["q"].within) == [("old", 30)]
    assert benchmark.histories["q"].cross == ()
    assert all_queries(benchmark)["q"].timestamp == 100


def test_the_same_product_counts_once_per_time(shop_of):
    twice = [review("u", "a", 10), review("u", "a", 10), review("u", "a", 20)]
    benchmark = load(shop_of(pens=[review("u", "pos", 100), *twice], inks=[review("u", "a", 20)]))
    assert bought(benchmark.histories["q"].within) == [("a", 10), ("a", 20)]
    assert benchmark.histories["q"].cross == ()


def test_newest_max_history_of_each_side_are_kept(shop_of):
    root = shop_of(
        pens=[review("u", "pos", 100), *(review("u", f"p{n}", n) for n in range(1, 6))],
        inks=[review("u", f"i{n}", n) for n in range(1, 5)],
    )
    benchmark = load(root, max_history=2)
    assert bought(benchmark.histories["q"].within) == [("p4", 4), ("p5", 5)]
    assert bought(benchmark.histories["q"].cross) == [("i3", 3), ("i4", 4)]
    assert benchmark.counts["purchases_dropped_over_max_history"] == 3 + 2
    assert benchmark.counts["purchases_kept_within"] == 2 + 1 + 1  # with the two fillers
    assert benchmark.counts["purchases_kept_cross"] == 2


def test_purchases_without_metadata_or_title_are_left_out_before_the_cap(shop_of):
    pens = [review("u", id, t) for id, t in (("a", 1), ("b", 2), ("blank", 3), ("gone", 4))]
    root = shop_of(
        pens=[review("u", "pos", 100), *pens],
        described=[product("a"), product("b"), product("pos"), product("blank", "  ")],
    )
    benchmark = load(root, max_history=2)
    assert bought(benchmark.histories["q"].within) == [("a", 1), ("b", 2)]
    counts = benchmark.counts
    assert counts["purchases_dropped_no_title"] == 1
    assert counts["purchases_dropped_no_metadata"] == 1
    assert (
        counts["purchases_before_a_target"]
        == 6
        == sum(
            number
            for name, number in counts.items()
            if name.startswith(("purchases_d", "purchases_k"))
        )
    )


def test_corpus_is_the_item_pool_and_the_positives_sorted_with_the_best_text(shop_of):
    root = shop_of(
        pens=[review("u", "pos", 100), review("u", "old", 1)],
        described=[
            product("pos", "Fine  pen", description=["Writes", "well."]),
            product("old"),
            product("blank", ""),
            product("untold", " "),
        ],
        items=[item("z", "Pool only text"), item("pos", "unused"), item("untold", "Told here")],
    )
    benchmark = load(root)
    corpus = benchmark.corpus
    assert list(corpus) == ["f1-pos", "f2-pos", "pos", "untold", "z"]
    assert (corpus["pos"].title, corpus["pos"].description) == ("Fine pen", "Writes well.")
    assert (corpus["z"].title, corpus["z"].description) == ("Pool only text", "")
    assert (corpus["z"].category, corpus["pos"].category) == ("Shop", "Pens")
    assert corpus["untold"].title == "Told here"
    assert benchmark.counts["positives_added_to_the_corpus"] == 2
    assert benchmark.counts["products_with_item_pool_text"] == 2
    assert benchmark.counts["products_in_the_corpus"] == 5


def test_a_product_described_twice_keeps_the_first_record_that_has_a_title(shop_of):
    root = shop_of(
        pens=[review("u", "pos", 100), review("u", "old", 1)],
        described=[product("pos", "Pos from Pens"), product("old", "From Pens")],
    )
    inks = root / "raw/meta_categories/meta_Inks.jsonl"
    write_lines(inks, [product("pos", " "), product("old", "From Inks")])
    benchmark = load(root)
    assert benchmark.corpus["pos"].title == "Pos from Pens"
    assert benchmark.corpus["pos"].category == "Pens"
    (purchase,) = benchmark.histories["q"].within
    assert purchase.product.title == "From Inks"  # "Inks" comes before "Pens"
    assert benchmark.counts["products_described_twice"] == 2
    assert benchmark.counts["products_with_two_titles"] == 1  # a blank one is none


def test_records_of_one_product_are_counted_within_a_file_and_across_files(shop_of):
    root = shop_of(
        pens=[review("u", "pos", 100), review("u", "old", 1)],
        described=[product("pos"), product("old", "A"), product("old", "B"), product("old", "B")],
    )
    write_lines(root / "raw/meta_categories/meta_Inks.jsonl", [product("pos"), product("pos")])
    counts = load(root).counts
    assert counts["products_described_twice"] == 2 + 2  # beyond the first of each product
    assert counts["products_with_two_titles"] == 1


def test_queries_are_left_out_and_counted_by_reason(shop_of):
    root = shop_of(
        pens=[
            review("u", "pos", 100),
            review("u", "old", 1),
            review("new", "first", 3),
            review("v", "nameless", 9),
            review("v", "old", 1),
        ],
        inks=[review("u", "ink", 50)],
        described=[product("pos"), product("old"), product("first")],
        queries=[
            ("q-ink", "ink", "ink", "u"),
            ("q-none", "a pen", "pos", "nobody"),
            ("q-new", "my first pen", "first", "new"),
            ("q-nameless", "a pen", "nameless", "v"),
        ],
    )
    benchmark = load(root)
    assert sorted(all_queries(benchmark)) == ["q", "qf1", "qf2"] == sorted(benchmark.histories)
    expected = {
        "queries_in_file": 7,
        "queries_of_other_categories": 1,
        "queries_without_a_matching_review": 1,
        "queries_of_the_category": 5,
        "queries_dropped_empty_history": 1,
        "queries_dropped_positive_without_text": 1,
        "queries_kept": 3,
        "queries_without_cross_history": 3,
        "queries_in_train": 1,
        "queries_in_dev": 1,
        "queries_in_test": 1,
    }
    assert {name: benchmark.counts[name] for name in expected} == expected


def test_hugging_face_form_of_metadata_gives_the_same_products(shop_of):
    pens = [review("u", "pos", 100), review("u", "old", 1)]
    raw = [product("pos", price=3.5, details={"Ink": "blue"}), product("old")]
    loader = [
        product("pos", price="None", details='{"Ink": "blue"}', images={"large": []}),
        product("old", price="3.50", details="{}", author=None),
    ]
    first = load(shop_of(pens=pens, described=raw))
    second = load(shop_of(pens=pens, described=loader))
    assert first.corpus == second.corpus
    assert first.corpus["pos"].text == "Title of pos. Ink: blue"


def test_words_are_cut_over_title_and_description_together(shop_of):
    root = shop_of(
        pens=[review("u", "pos", 100), review("u", "old", 1)],
        described=[product("pos", "one two three", description=["four five six"]), product("old")],
    )
    assert load(root, max_words=5).corpus["pos"].text == "one two three. four five"
    assert load(root, max_words=2).corpus["pos"].text == "one two"


def test_gzip_and_plain_files_give_the_same_benchmark(three_shoppers):
    plain = load(three_shoppers)
    path = three_shoppers / "raw/review_categories/Pens.jsonl"
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert load(three_shoppers) == plain


def test_fingerprint_depends_on_content_and_settings_but_not_on_the_place(three_shoppers):
    first = load(three_shoppers)
    moved = three_shoppers.rename(three_shoppers.with_name("moved"))
    assert load(moved) == first
    changes = [{"seed": 1}, {"max_history": 9}, {"max_words": 9}, {"source": "other"}]
    prints = {load(moved, **change).fingerprint for change in changes}
    path = moved / "raw/meta_categories/meta_Pens.jsonl"
    path.write_text(path.read_text().replace("Title of u1b", "Title of u1c"))
    prints.add(load(moved).fingerprint)
    assert len(prints | {first.fingerprint}) == 6


@pytest.mark.parametrize("name", ["shop?", "shop*", "[s]hop"])
def test_a_root_whose_name_looks_like_a_pattern_is_read_alone(three_shoppers, name):
    expected = load(three_shoppers)
    root = three_shoppers.with_name(name)
    shutil.copytree(three_shoppers, root)
    three_shoppers.rename(three_shoppers.with_name("shops"))
    if name == "[s]hop":
        shutil.copytree(root, three_shoppers)  # what the pattern would find
    assert load(root) == expected


@pytest.mark.parametrize("name", ["max_history", "max_words"])
def test_caps_below_one_are_refused(three_shoppers, name):
    with pytest.raises(ConfigError, match=f"data.{name}=0"):
        load(three_shoppers, **{name: 0})


def test_category_without_queries_says_how_many_there_are_elsewhere(shop_of):
    root = shop_of(pens=[review("u", "pos", 100)], inks=[review("stranger", "ink", 1)])
    write_lines(root / "raw/meta_categories/meta_Inks.jsonl", [product("ink")])
    with pytest.raises(DataError, match=r"no query of category Inks; .*\(with queries: Pens 3\)"):
        load(root, "Inks")


def test_too_few_users_for_a_test_split_says_the_sizes_and_reasons(shop_of):
    root = shop_of(pens=[review("u", "pos", 100)])
    with pytest.raises(DataError) as caught:
        load(root)
    message = str(caught.value)
    assert "no dev and no test queries left after filtering" in message
    assert "train 2, dev 0, test 0" in message
    assert "queries dropped empty history: 1" in message


def test_every_query_is_in_one_split_and_sorted(three_shoppers):
    benchmark = load(three_shoppers)
    assert [len(benchmark.queries[split]) for split in Split] == [1, 1, 1]
    assert sorted(all_queries(benchmark)) == ["q-u1", "q-u2", "q-u3"]
