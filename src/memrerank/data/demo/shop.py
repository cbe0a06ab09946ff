"""A year-long run of the demo shop: who bought what, when, and what they had searched for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memrerank.data.demo.catalogue import Item, make_items
from memrerank.data.demo.kinds import KINDS
from memrerank.data.demo.settings import DemoSettings
from memrerank.data.demo.shoppers import HiddenPreferences, Shopper, make_shoppers
from memrerank.data.demo.vocabulary import BEAUTY, ELECTRONICS
from memrerank.seeding import numpy_generator

DAY = 86_400_000  # milliseconds
SEARCHES_FROM = 1_609_459_200_000  # 2021-01-01 UTC
SEARCH_DAYS = 800
HISTORY_DAYS = 1_500

BRAND_WEIGHT = 0.8
TRAIT_WEIGHT = 1.0
USE_WEIGHT = 1.6
TIER_WEIGHT = 0.3
WHIM = 0.35  # scale of the Gumbel noise on what a product is worth in an everyday purchase
SEARCH_WHIM = 0.1  # the same where the shopper searched
LOOKED_AT = 40  # products that a shopper compares in an everyday purchase

WITHIN = (5, 12)  # purchases in the searched category before the target, both included
CROSS = (6, 14)  # purchases elsewhere before the target
AFTER = (0, 2)  # purchases after the target, in either
SUNDRY_CHANCE = 0.6  # of a sundry, among purchases of electronics
FOREIGN_CHANCE = 0.12  # of the other searched category, among purchases elsewhere
PASTIME_CHANCE = 0.75  # of goods for the pastime, among the remaining ones

SEARCHES = (
    "I'm looking for {noun} {function}",
    "I need {noun} {function}, please",
    "Can you recommend {noun} {function}?",
    "{noun} {function}",
    "Searching for {noun} {function} that will last",
    "I want to replace my old one: {noun} {function}",
    "My last one broke, so I need {noun} {function}",
    "Good {noun} {function} with decent reviews",
)


@dataclass(frozen=True)
class Sale:
    """One purchase."""

    user_id: str
    item: Item
    timestamp: int


@dataclass(frozen=True)
class Search:
    """One query with the sale that answered it."""

    text: str
    sale: Sale


@dataclass(frozen=True)
class Shop:
    """All that the store's files are written from."""

    items: list[Item]
    sales: list[Sale]
    searches: list[Search]


def run_shop(settings: DemoSettings) -> Shop:
    """Makes products and shoppers, and lets the shoppers buy."""
    items = make_items(settings)
    shelves = _Shelves(items)
    sales: list[Sale] = []
    searches: list[Search] = []
    for shopper in make_shoppers(settings):
        rng = numpy_generator(settings.seed, "demo", "purchases", shopper.user_id)
        bought, search = _shop(rng, shopper, shelves)
        sales.extend(bought)
        if search is not None:
            searches.append(search)
    return Shop(items, sales, searches)


class _Shelves:
    """The items in the groups that shoppers walk along, as arrays."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        index = range(len(items))
        self.kinds = {c: _where(i for i in index if _sought(items[i], c)) for c in KINDS}
        self.sundries = {
            c: _where(i for i in index if items[i].category == c and items[i].need is None)
            for c in KINDS
        }
        other = [i for i in index if items[i].category not in KINDS]
        self.other = _where(other)
        pastimes = {items[i].pastime for i in other} - {None}
        self.goods = {p: _where(i for i in other if items[i].pastime == p) for p in pastimes}

    def worth(self, preferences: HiddenPreferences, where: np.ndarray) -> np.ndarray:
        """What each item of a searched category is worth to a shopper. [len(where)]"""
        return np.array([_worth(preferences, self.items[i]) for i in where])


def _where(indices) -> np.ndarray:  # type: ignore[no-untyped-def]
    return np.fromiter(indices, dtype=np.int64)


def _sought(item: Item, category: str) -> bool:
    return item.category == category and item.need is not None


def _worth(preferences: HiddenPreferences, item: Item) -> float:
    taste = preferences.tastes[item.category]
    liked = sum(taste.traits[name] == value for name, value in item.traits.items())
    return (
        TRAIT_WEIGHT * liked
        + BRAND_WEIGHT * (item.brand in taste.brands)
        + TIER_WEIGHT * (item.tier == taste.tier)
        + USE_WEIGHT * (item.pastime == preferences.pastime_index)
    )


def _shop(
    rng: np.random.Generator, shopper: Shopper, shelves: _Shelves
) -> tuple[list[Sale], Search | None]:
    searched = shopper.searches
    within = searched or (ELECTRONICS if rng.random() < 0.5 else BEAUTY)
    time = SEARCHES_FROM + int(rng.integers(SEARCH_DAYS * DAY))
    taken: set[int] = set()
    search = None
    sales: list[Sale] = []
    if searched is not None:
        target = _target(rng, shopper, shelves, searched)
        taken.add(target)
        sale = Sale(shopper.user_id, shelves.items[target], time)
        search = Search(_query(rng, shelves.items[target]), sale)
        sales.append(sale)
    for count, elsewhere in ((WITHIN, False), (CROSS, True)):
        before, after = _between(rng, count), _between(rng, AFTER)
        for number in range(before + after):
            choose = _elsewhere if elsewhere else _everyday
            index = choose(rng, shopper, shelves, within, taken)
            taken.add(index)
            days = rng.uniform(-HISTORY_DAYS, -1) if number < before else rng.uniform(1, 200)
            sales.append(Sale(shopper.user_id, shelves.items[index], time + int(days * DAY)))
    return sorted(sales, key=lambda sale: sale.timestamp), search


def _between(rng: np.random.Generator, bounds: tuple[int, int]) -> int:
    return int(rng.integers(bounds[0], bounds[1] + 1))


def _target(rng: np.random.Generator, shopper: Shopper, shelves: _Shelves, category: str) -> int:
    """The product that the shopper likes best, over half of the needs that exist."""
    where = shelves.kinds[category]
    needs = sorted({shelves.items[i].need for i in where})
    chosen = rng.choice(len(needs), size=max(1, len(needs) // 2), replace=False)
    considered = {needs[i] for i in chosen}
    where = where[[shelves.items[i].need in considered for i in where]]
    worth = shelves.worth(shopper.preferences, where) + SEARCH_WHIM * rng.gumbel(size=len(where))
    return int(where[np.argmax(worth)])


def _everyday(
    rng: np.random.Generator, shopper: Shopper, shelves: _Shelves, category: str, taken: set[int]
) -> int:
    """A purchase in a searched category: the best of some, up to a whim."""
    sundries = shelves.sundries[category]
    shelf = shelves.kinds[category]
    if len(sundries) and rng.random() < SUNDRY_CHANCE:
        shelf = sundries
    seen = np.array([i for i in rng.choice(shelf, size=LOOKED_AT) if i not in taken])
    worth = shelves.worth(shopper.preferences, seen) + WHIM * rng.gumbel(size=len(seen))
    return int(seen[np.argmax(worth)])


def _elsewhere(
    rng: np.random.Generator, shopper: Shopper, shelves: _Shelves, category: str, taken: set[int]
) -> int:
    """A purchase outside `category`: mostly for the pastime, at times for anything."""
    if rng.random() < FOREIGN_CHANCE:
        foreign = next(other for other in KINDS if other != category)
        return _everyday(rng, shopper, shelves, foreign, taken)
    pastime = rng.random() < PASTIME_CHANCE
    shelf = shelves.goods[shopper.preferences.pastime_index] if pastime else shelves.other
    free = [i for i in rng.choice(shelf, size=LOOKED_AT) if i not in taken]
    return int(free[0])


def _query(rng: np.random.Generator, item: Item) -> str:
    kind = KINDS[item.category][item.need[0]]  # type: ignore[index]
    function = kind.functions[item.need[1]].query  # type: ignore[index]
    text = SEARCHES[int(rng.integers(len(SEARCHES)))]
    noun = item.noun.lower()
    return text.format(noun=noun, function=function)
