"""The products of the demo shop: what each one is, and how its page puts it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

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


def _kind_items(
    rng: np.random.Generator, ids: Iterator[str], category: str, products: int
) -> Iterator[Item]:
    kinds = kinds_in_stock(category, products)
    needs = [(k, f) for k, kind in enumerate(kinds) for f in range(len(kind.functions))]
    for kind_index, function_index in needs * ANSWERS_PER_NEED:
        kind = kinds[kind_index]
        function = kind.functions[function_index]
        traits = {name: int(rng.integers(len(v))) for name, v in TRAITS[category].items()}
        values = {name: TRAITS[category][name][index] for name, index in traits.items()}
        pastime = int(rng.integers(len(PASTIMES))) if category == ELECTRONICS else None
        if pastime is not None:
            values["use"] = PASTIMES[pastime].use
        yield _item(
            rng, next(ids), category, _wording(rng, kind.nouns), TITLES[category], values,
            {"function": function.title}, sense=function.query, need=(kind_index, function_index), traits=traits,
            pastime=pastime,
        )  # fmt: skip


def _sundry_items(
    rng: np.random.Generator, ids: Iterator[str], category: str, count: int
) -> Iterator[Item]:
    for number in range(count):
        noun = SUNDRIES[category][number % len(SUNDRIES[category])]
        traits = {name: int(rng.integers(len(v))) for name, v in TRAITS[category].items()}
        values = {name: TRAITS[category][name][index] for name, index in traits.items()}
        yield _item(
            rng, next(ids), category, noun, SUNDRY_TITLES, values,
            {"color": _pick(rng, COLORS)}, traits=traits,
        )  # fmt: skip


def _other_items(rng: np.random.Generator, ids: Iterator[str], count: int) -> Iterator[Item]:
    goods = [
        (category, noun, number)
        for number, pastime in enumerate(PASTIMES)
        for category, nouns in pastime.goods.items()
        for noun in nouns
    ]
    plain = [(category, noun) for category, nouns in PLAIN_GOODS.items() for noun in nouns]
    plain_count = int(count * PLAIN_SHARE)
    for index in range(count):
        pastime: int | None = None
        if index < plain_count:
            category, noun = plain[index % len(plain)]
        else:
            category, noun, pastime = goods[index % len(goods)]
        values = {} if pastime is None else {"use": PASTIMES[pastime].use}
        words = {"color": _pick(rng, COLORS), "size": _pick(rng, SIZES)}
        yield _item(
            rng, next(ids), category, noun, PLAIN_TITLES if pastime is None else GOODS_TITLES,
            values, words, pastime=pastime,
        )  # fmt: skip


def _item(
    rng: np.random.Generator,
    item_id: str,
    category: str,
    noun: str,
    titles: tuple[str, ...],
    values: dict[str, Value],
    words: dict[str, str],
    sense: str = "",
    need: tuple[int, int] | None = None,
    traits: dict[str, int] | None = None,
    pastime: int | None = None,
) -> Item:
    """One product whose title and description tell of `values` (traits) and `words` (the rest)."""
    brands = brands_of(category)
    brand, tier = int(rng.integers(len(brands))), int(rng.integers(len(TIERS)))
    wordings = {name: _wording(rng, value.titles) for name, value in values.items()}
    title = _pick(rng, titles).format(brand=brands[brand], noun=noun, **wordings, **words)
    sentences = [value.sentence for value in values.values()] + [TIERS[tier].sentence]
    rng.shuffle(sentences)
    return Item(
        id=item_id,
        category=category,
        noun=noun,
        title=title,
        description=" ".join([f"{noun} {sense}".strip() + ".", *sentences]),
        features=tuple(words.values()),
        price=round(float(rng.uniform(0.8, 1.25) * (9.0, 24.0, 69.0)[tier]), 2),
        brand=brand,
        tier=tier,
        need=need,
        traits=traits or {},
        pastime=pastime,
    )


def _wording(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    """The first option most of the time, another one otherwise."""
    if len(options) == 1 or rng.random() < USUAL_WORDING:
        return options[0]
    return options[1 + int(rng.integers(len(options) - 1))]


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]
