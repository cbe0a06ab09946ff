"""What the shoppers of the demo store like must decide what they buy, and show in their history."""

from collections import Counter

import numpy as np
import pytest

from memrerank.data.demo import DemoSettings, hidden_preferences
from memrerank.data.demo import shoppers as shoppers_module
from memrerank.data.demo.catalogue import ANSWERS_PER_NEED
from memrerank.data.demo.kinds import KINDS
from memrerank.data.demo.vocabulary import BEAUTY, ELECTRONICS, OTHER_CATEGORIES, TRAITS
from memrerank.errors import ConfigError


def matches(preferences, item) -> list[bool]:
    """Which of the item's decisive facts its buyer likes: each trait, the brand, the use."""
    taste = preferences.tastes[item.category]
    liked = [item.traits[name] == value for name, value in taste.traits.items()]
    liked.append(item.brand in taste.brands)
    if item.pastime is not None:
        liked.append(item.pastime == preferences.pastime_index)
    return liked


def history(small, search, category: str, within: bool) -> list:
    return [
        sale.item
        for sale in small.shop.sales
        if sale.user_id == search.sale.user_id
        and sale.timestamp < search.sale.timestamp
        and (sale.item.category == category) == within
    ]


def searches(small, category: str) -> list:
    return [s for s in small.shop.searches if s.sale.item.category == category]


def test_the_store_has_the_sizes_that_were_asked_for(small) -> None:
    assert len(small.items) == 900
    assert len(small.preferences) == 120
    asked = Counter(search.sale.item.category for search in small.shop.searches)
    assert asked == {ELECTRONICS: 40, BEAUTY: 40}
    assert {item.category for item in small.shop.items} == {ELECTRONICS, BEAUTY, *OTHER_CATEGORIES}


@pytest.mark.parametrize("category", [ELECTRONICS, BEAUTY])
def test_eighteen_products_answer_every_need(small, category: str) -> None:
    offers = Counter(i.need for i in small.shop.items if i.category == category and i.need)
    assert set(offers.values()) == {ANSWERS_PER_NEED} == {18}
    assert len(offers) == 2 * 5  # a fifth of 900 products holds five kinds of two functions


@pytest.mark.parametrize("category", [ELECTRONICS, BEAUTY])
def test_the_shopper_takes_what_they_like_best_of_what_answers_the_need(
    small, category: str
) -> None:
    first = better = 0
    for search in searches(small, category):
        item, preferences = search.sale.item, small.preferences[search.sale.user_id]
        rivals = [
            sum(matches(preferences, rival))
            for rival in small.shop.items
            if rival.category == category and rival.need == item.need and rival is not item
        ]
        first += sum(matches(preferences, item)) >= max(rivals)
        better += sum(matches(preferences, item)) > np.mean(rivals) + 1
    assert first >= 36  # of 40: the price tier, use before style, and a whim decide the rest
    assert better >= 38


@pytest.mark.parametrize("category", [ELECTRONICS, BEAUTY])
def test_histories_have_the_lengths_that_the_demo_promises(small, category: str) -> None:
    for search in searches(small, category):
        assert 5 <= len(history(small, search, category, within=True)) <= 12
        assert 6 <= len(history(small, search, category, within=False)) <= 14
        bought = [s.item.id for s in small.shop.sales if s.user_id == search.sale.user_id]
        assert len(bought) == len(set(bought))


@pytest.mark.parametrize("category", [ELECTRONICS, BEAUTY])
def test_the_within_history_shows_the_taste(small, category: str) -> None:
    hits = {name: [] for name in TRAITS[category]}
    for search in searches(small, category):
        taste = small.preferences[search.sale.user_id].tastes[category]
        for item in history(small, search, category, within=True):
            for name, value in taste.traits.items():
                hits[name].append(item.traits[name] == value)
    for name, found in hits.items():
        by_chance = 1 / len(TRAITS[category][name])
        assert np.mean(found) > 2 * by_chance, name


def test_the_pastime_shows_in_the_cross_history_and_decides_electronics_alone(small) -> None:
    for category in (ELECTRONICS, BEAUTY):
        shared = [
            item.pastime == small.preferences[search.sale.user_id].pastime_index
            for search in searches(small, category)
            for item in history(small, search, category, within=False)
        ]
        assert 0.55 < np.mean(shared) < 0.9
    bought_for_it = [
        search.sale.item.pastime == small.preferences[search.sale.user_id].pastime_index
        for search in searches(small, ELECTRONICS)
    ]
    assert np.mean(bought_for_it) > 0.7  # by chance 0.08
    assert all(search.sale.item.pastime is None for search in searches(small, BEAUTY))


def test_titles_are_short_and_whole(small) -> None:
    lengths = [len(item.title.split()) for item in small.shop.items if item.need]
    assert 7 <= np.mean(lengths) <= 16
    assert max(lengths) <= 16
    for item in small.shop.items:
        assert item.brand_name in item.title
        assert item.noun in item.title
        assert "{" not in item.title + item.description


def test_all_kinds_are_in_stock_at_full_size() -> None:
    from memrerank.data.demo.catalogue import make_items

    items = make_items(DemoSettings())
    assert len(items) == 6_400
    for category, kinds in KINDS.items():
        needs = {item.need for item in items if item.category == category and item.need}
        assert len(needs) == sum(len(kind.functions) for kind in kinds)


def test_preferences_follow_from_the_seed() -> None:
    settings = DemoSettings(shoppers=120, products=900, queries_per_category=40)
    assert hidden_preferences(settings) == hidden_preferences(settings)
    other = DemoSettings(seed=1, shoppers=120, products=900, queries_per_category=40)
    assert not hidden_preferences(settings).keys() & hidden_preferences(other).keys()


def test_user_ids_owe_nothing_to_preferences(small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shoppers_module, "TRAITS", {c: {} for c in TRAITS})
    monkeypatch.setattr(shoppers_module, "PASTIMES", shoppers_module.PASTIMES[:1])
    bare = hidden_preferences(small.settings)
    assert list(bare) == list(small.preferences)
    assert bare != small.preferences


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"shoppers": 99, "queries_per_category": 50}, "data.shoppers=99 is too few"),
        ({"queries_per_category": 0}, "data.queries_per_category=0"),
        ({"products": 599}, "data.products=599 is too few"),
    ],
)
def test_sizes_that_do_not_fit_are_named(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DemoSettings(**sizes)


def test_the_smallest_store_can_be_made() -> None:
    from memrerank.data.demo.shop import run_shop

    shop = run_shop(DemoSettings(shoppers=300, products=600, queries_per_category=150))
    assert len(shop.items) == 600
    assert len(shop.searches) == 300
