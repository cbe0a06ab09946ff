"""The trade of the demo shop: who bought what, when, and what they had searched for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from memrerank.data.demo.catalogue import Item, make_items
from memrerank.data.demo.kinds import KINDS
from memrerank.data.demo.pastimes import PASTIMES
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
    "I'm looking for {need}",
    "I need {need}, please",
    "Can you recommend {need}?",
    "{need}",
    "Needed soon: {need}",
    "I want to replace my old one: {need}",
    "My last one broke, so I need {need}",
    "Which shop has {need}? It should have good reviews",
)
SPOKEN_LIKE_A_VOWEL = ("FM", "LED")


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
        bought, search = _visit(rng, shopper, shelves)
        sales.extend(bought)
        if search is not None:
            searches.append(search)
    return Shop(items, sales, searches)


class _Shelves:
    """The items in the groups that shoppers walk along, as arrays of indices."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        numbered = list(enumerate(items))
        other = [(n, item) for n, item in numbered if item.category not in KINDS]
        self.kinds = {
            c: _indices(n for n, item in numbered if item.category == c and item.need is not None)
            for c in KINDS
        }
        self.sundries = {
            c: _indices(n for n, item in numbered if item.category == c and item.need is None)
            for c in KINDS
        }
        self.other = _indices(n for n, _ in other)
        self.goods = [
            _indices(n for n, item in other if item.pastime == pastime)
            for pastime in range(len(PASTIMES))
        ]

    def worth(self, preferences: HiddenPreferences, indices: np.ndarray) -> np.ndarray:
        """What each item of a searched category is worth to a shopper. [len(indices)]"""
        return np.array([_worth(preferences, self.items[i]) for i in indices])


def _indices(numbers: Iterable[int]) -> np.ndarray:
    return np.fromiter(numbers, dtype=np.int64)


def _worth(preferences: HiddenPreferences, item: Item) -> float:
    taste = preferences.tastes[item.category]
    liked = sum(taste.traits[name] == value for name, value in item.traits.items())
    return (
        TRAIT_WEIGHT * liked
        + BRAND_WEIGHT * (item.brand in taste.brands)
        + TIER_WEIGHT * (item.tier == taste.tier)
        + USE_WEIGHT * (item.pastime == preferences.pastime_index)
    )


def _visit(
    rng: np.random.Generator, shopper: Shopper, shelves: _Shelves
) -> tuple[list[Sale], Search | None]:
    """All that one shopper buys, oldest first, and their search if they have one."""
    category = shopper.searches or (ELECTRONICS, BEAUTY)[int(rng.integers(2))]
    time = SEARCHES_FROM + int(rng.integers(SEARCH_DAYS * DAY))
    taken: set[int] = set()
    sales: list[Sale] = []
    search = None
    if shopper.searches is not None:
        target = _target(rng, shopper.preferences, shelves, category)
        taken.add(target)
        sales.append(Sale(shopper.user_id, shelves.items[target], time))
        search = Search(_query(rng, shelves.items[target]), sales[0])
    for counts, choose in ((WITHIN, _everyday), (CROSS, _elsewhere)):
        before, after = _between(rng, counts), _between(rng, AFTER)
        for number in range(before + after):
            index = choose(rng, shopper.preferences, shelves, category, taken)
            taken.add(index)
            days = rng.uniform(-HISTORY_DAYS, -1) if number < before else rng.uniform(1, 200)
            sales.append(Sale(shopper.user_id, shelves.items[index], time + int(days * DAY)))
    return sorted(sales, key=lambda sale: sale.timestamp), search


def _between(rng: np.random.Generator, bounds: tuple[int, int]) -> int:
    return int(rng.integers(bounds[0], bounds[1] + 1))


def _target(
    rng: np.random.Generator, preferences: HiddenPreferences, shelves: _Shelves, category: str
) -> int:
    """The product that the shopper likes best, over half of the needs that exist."""
    shelf = shelves.kinds[category]
    needs = list(dict.fromkeys(shelves.items[i].need for i in shelf))
    felt = rng.choice(len(needs), size=max(1, len(needs) // 2), replace=False)
    considered = {needs[number] for number in felt}
    seen = np.array([i for i in shelf if shelves.items[i].need in considered])
    worth = shelves.worth(preferences, seen) + SEARCH_WHIM * rng.gumbel(size=len(seen))
    return int(seen[np.argmax(worth)])


def _everyday(
    rng: np.random.Generator,
    preferences: HiddenPreferences,
    shelves: _Shelves,
    category: str,
    taken: set[int],
) -> int:
    """A purchase in a searched category: the best of some, up to a whim."""
    shelf = shelves.kinds[category]
    if len(shelves.sundries[category]) and rng.random() < SUNDRY_CHANCE:
        shelf = shelves.sundries[category]
    seen = rng.choice(_free(shelf, taken), size=LOOKED_AT)
    worth = shelves.worth(preferences, seen) + WHIM * rng.gumbel(size=len(seen))
    return int(seen[np.argmax(worth)])


def _elsewhere(
    rng: np.random.Generator,
    preferences: HiddenPreferences,
    shelves: _Shelves,
    category: str,
    taken: set[int],
) -> int:
    """A purchase outside `category`: mostly for the pastime, at times for anything."""
    if rng.random() < FOREIGN_CHANCE:
        foreign = next(other for other in KINDS if other != category)
        return _everyday(rng, preferences, shelves, foreign, taken)
    pastime = rng.random() < PASTIME_CHANCE
    shelf = shelves.goods[preferences.pastime_index] if pastime else shelves.other
    return int(rng.choice(_free(shelf, taken)))


def _free(shelf: np.ndarray, taken: set[int]) -> np.ndarray:
    return shelf[~np.isin(shelf, list(taken))]


def _query(rng: np.random.Generator, item: Item) -> str:
    """A search for the item's need, which names nothing that tells it from its rivals."""
    assert item.need is not None  # targets come off the shelves of kinds
    kind, function = item.need
    sense = KINDS[item.category][kind].functions[function].query
    text = SEARCHES[int(rng.integers(len(SEARCHES)))]
    return text.format(need=f"{_with_article(item.noun)} {sense}")


def _with_article(noun: str) -> str:
    """`an LED clock`, `wireless earbuds`: a title's noun as it stands in a sentence."""
    keep = ("Bluetooth", "Android")
    words = [w if w.isupper() or w in keep else w.lower() for w in noun.split()]
    phrase = " ".join(words)
    if phrase.endswith("s"):
        return phrase
    vowel = phrase[0].lower() in "aeiou" or words[0] in SPOKEN_LIKE_A_VOWEL
    return f"{'an' if vowel else 'a'} {phrase}"
