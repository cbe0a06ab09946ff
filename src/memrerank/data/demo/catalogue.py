"""The products of the demo shop: what each one is, and how its page puts it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice

import numpy as np

from memrerank.data.demo.kinds import KINDS, SUNDRIES, Kind
from memrerank.data.demo.pastimes import PASTIMES, PLAIN_GOODS
from memrerank.data.demo.settings import DemoSettings
from memrerank.data.demo.shoppers import unique_ids
from memrerank.data.demo.vocabulary import (
    BEAUTY,
    BRANDS,
    COLORS,
    ELECTRONICS,
    OTHER_CATEGORIES,
    SIZES,
    TIERS,
    TRAITS,
    Value,
)
from memrerank.seeding import numpy_generator

ANSWERS_PER_NEED = 18  # products with the same kind and function
SEARCHED_SHARE = 0.2  # of all products, at most, in each category that queries search
SUNDRIES_SHARE = 0.03  # of all products
PLAIN_SHARE = 0.25  # of the other categories' products
TIER_PRICES = (9.0, 24.0, 69.0)  # US dollars, in the order of TIERS
USUAL_WORDING = 0.7  # how often a title takes a value's first wording

TITLES = {
    ELECTRONICS: (
        "{brand} {style} {noun}, {finish}, {function}, {use}",
        "{brand} {noun} {use}, {style}, {finish}, {function}",
        "{brand} {finish} {noun}, {style}, {use}, {function}",
        "{brand} {function} {noun}, {style} {finish}, {use}",
    ),
    BEAUTY: (
        "{brand} {ethos} {noun}, {ingredient}, {scent}, {function}",
        "{brand} {ingredient} {noun}, {scent}, {function}, {ethos}",
        "{brand} {noun}, {scent} and {ingredient}, {ethos}, {function}",
        "{brand} {function} {noun}, {ethos}, {ingredient}, {scent}",
    ),
}
SUNDRY_TITLES = (
    "{brand} {style} {noun}, {finish}, {color}",
    "{brand} {noun}, {finish}, {style}, {color}",
)
GOODS_TITLES = (
    "{brand} {noun} {use}, {color}, {size}",
    "{brand} {color} {noun}, {size}, {use}",
)
PLAIN_TITLES = ("{brand} {noun}, {color}, {size}",)


@dataclass(frozen=True)
class Item:
    """A product of the shop: its page, and the facts behind it (which are not written)."""

    id: str
    category: str
    noun: str
    title: str
    description: str
    features: tuple[str, ...]
    price: float
    brand: int
    tier: int
    need: tuple[int, int] | None = None  # (kind, function) where queries may ask for it
    traits: dict[str, int] = field(default_factory=dict)
    pastime: int | None = None

    @property
    def brand_name(self) -> str:
        """The brand, as titles have it."""
        return brands_of(self.category)[self.brand]


def brands_of(category: str) -> tuple[str, ...]:
    """The brands that sell in a category."""
    return BRANDS["" if category in OTHER_CATEGORIES else category]


def make_items(settings: DemoSettings) -> list[Item]:
    """Exactly `settings.products` products, electronics first, then beauty, then the rest."""
    rng = numpy_generator(settings.seed, "demo", "items")
    ids = unique_ids(rng, "B0", 8)
    items = [
        *_kind_items(rng, ids, ELECTRONICS, settings.products),
        *_sundry_items(rng, ids, ELECTRONICS, int(settings.products * SUNDRIES_SHARE)),
        *_kind_items(rng, ids, BEAUTY, settings.products),
    ]
    return [*items, *_other_items(rng, ids, settings.products - len(items))]


def kinds_in_stock(category: str, products: int) -> tuple[Kind, ...]:
    """The kinds of a category that a store of so many products has room for."""
    room = int(products * SEARCHED_SHARE)
    return KINDS[category][: max(2, room // (2 * ANSWERS_PER_NEED))]


@dataclass(frozen=True)
class _Blueprint:
    """What is settled about a product before its brand, price and wording are drawn."""

    category: str
    noun: str
    title_forms: tuple[str, ...]
    values: dict[str, Value]  # traits by the title form's field
    words: dict[str, str]  # the other fields of the title form
    sense: str = ""  # what the product does, in words that follow its noun
    need: tuple[int, int] | None = None
    traits: dict[str, int] = field(default_factory=dict)
    pastime: int | None = None


def _kind_items(
    rng: np.random.Generator, ids: Iterator[str], category: str, products: int
) -> Iterator[Item]:
    """`ANSWERS_PER_NEED` products for every function of every kind in stock."""
    kinds = kinds_in_stock(category, products)
    needs = [(k, f) for k, kind in enumerate(kinds) for f in range(len(kind.functions))]
    for need in needs * ANSWERS_PER_NEED:
        kind = kinds[need[0]]
        function = kind.functions[need[1]]
        traits, values = _traits(rng, category)
        pastime = None
        if category == ELECTRONICS:
            pastime = int(rng.integers(len(PASTIMES)))
            values["use"] = PASTIMES[pastime].use
        yield _item(
            rng,
            next(ids),
            _Blueprint(
                category=category,
                noun=_wording(rng, kind.nouns),
                title_forms=TITLES[category],
                values=values,
                words={"function": function.title},
                sense=function.query,
                need=need,
                traits=traits,
                pastime=pastime,
            ),
        )


def _sundry_items(
    rng: np.random.Generator, ids: Iterator[str], category: str, count: int
) -> Iterator[Item]:
    """Products that show traits and answer no need."""
    for noun in islice(cycle(SUNDRIES[category]), count):
        traits, values = _traits(rng, category)
        words = {"color": _pick(rng, COLORS)}
        plan = _Blueprint(category, noun, SUNDRY_TITLES, values, words, traits=traits)
        yield _item(rng, next(ids), plan)


def _other_items(rng: np.random.Generator, ids: Iterator[str], count: int) -> Iterator[Item]:
    """Products of the other categories: plain goods, then goods for the pastimes."""
    plain = [(category, noun) for category, nouns in PLAIN_GOODS.items() for noun in nouns]
    goods = [
        (category, noun, number)
        for number, pastime in enumerate(PASTIMES)
        for category, nouns in pastime.goods.items()
        for noun in nouns
    ]
    plain_count = int(count * PLAIN_SHARE)
    for category, noun in islice(cycle(plain), plain_count):
        words = {"color": _pick(rng, COLORS), "size": _pick(rng, SIZES)}
        yield _item(rng, next(ids), _Blueprint(category, noun, PLAIN_TITLES, {}, words))
    for category, noun, number in islice(cycle(goods), count - plain_count):
        words = {"color": _pick(rng, COLORS), "size": _pick(rng, SIZES)}
        values = {"use": PASTIMES[number].use}
        plan = _Blueprint(category, noun, GOODS_TITLES, values, words, pastime=number)
        yield _item(rng, next(ids), plan)


def _traits(rng: np.random.Generator, category: str) -> tuple[dict[str, int], dict[str, Value]]:
    """A value for each trait of the category, as index and in words."""
    choices = TRAITS[category]
    traits = {name: int(rng.integers(len(values))) for name, values in choices.items()}
    return traits, {name: choices[name][index] for name, index in traits.items()}


def _item(rng: np.random.Generator, item_id: str, plan: _Blueprint) -> Item:
    """Draws brand, price tier and wording; the description tells of every trait and the tier."""
    brands = brands_of(plan.category)
    brand, tier = int(rng.integers(len(brands))), int(rng.integers(len(TIERS)))
    wordings = {name: _wording(rng, value.titles) for name, value in plan.values.items()}
    title = _pick(rng, plan.title_forms).format(
        brand=brands[brand], noun=plan.noun, **wordings, **plan.words
    )
    sentences = [value.sentence for value in (*plan.values.values(), TIERS[tier])]
    rng.shuffle(sentences)
    return Item(
        id=item_id,
        category=plan.category,
        noun=plan.noun,
        title=title,
        description=" ".join([f"{plan.noun} {plan.sense}".strip() + ".", *sentences]),
        features=tuple(plan.words.values()),
        price=round(TIER_PRICES[tier] * float(rng.uniform(0.8, 1.25)), 2),
        brand=brand,
        tier=tier,
        need=plan.need,
        traits=plan.traits,
        pastime=plan.pastime,
    )


def _wording(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    """The first option most of the time, another one otherwise."""
    if len(options) == 1 or rng.random() < USUAL_WORDING:
        return options[0]
    return options[1 + int(rng.integers(len(options) - 1))]


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]
