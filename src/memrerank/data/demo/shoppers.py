"""Shoppers and what they secretly like. Nothing of this module is ever written to a file."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memrerank.data.demo.pastimes import PASTIMES, Pastime
from memrerank.data.demo.settings import DemoSettings
from memrerank.data.demo.vocabulary import (
    BEAUTY,
    BRANDS,
    ELECTRONICS,
    TIERS,
    TRAITS,
    Value,
)
from memrerank.seeding import numpy_generator

ID_CHARACTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
FAVOURITE_BRANDS = 2


@dataclass(frozen=True)
class Taste:
    """What a shopper likes within one category. Indices point into the vocabulary."""

    category: str
    brands: tuple[int, ...]  # the favourites, best first
    traits: dict[str, int]  # trait name -> the value liked
    tier: int

    @property
    def brand_names(self) -> tuple[str, ...]:
        """The favourite brands' names, best first."""
        return tuple(BRANDS[self.category][index] for index in self.brands)

    @property
    def values(self) -> dict[str, Value]:
        """The liked value of each trait."""
        return {name: TRAITS[self.category][name][index] for name, index in self.traits.items()}

    @property
    def tier_value(self) -> Value:
        """The price tier liked."""
        return TIERS[self.tier]


@dataclass(frozen=True)
class HiddenPreferences:
    """All that drives a shopper: a taste in each searched category, and one pastime."""

    tastes: dict[str, Taste]
    pastime_index: int

    @property
    def pastime(self) -> Pastime:
        """What the shopper spends their free time on."""
        return PASTIMES[self.pastime_index]


@dataclass(frozen=True)
class Shopper:
    """A shopper with their secrets; `searches` is the category of their query, if any."""

    user_id: str
    preferences: HiddenPreferences
    searches: str | None


def make_shoppers(settings: DemoSettings) -> list[Shopper]:
    """The shoppers of a store: first those who search electronics, then beauty, then the rest."""
    rng = numpy_generator(settings.seed, "demo", "shoppers")
    # From a generator of their own, so that ids owe nothing to what their owners like.
    ids = unique_ids(numpy_generator(settings.seed, "demo", "user ids"), "A", 27)
    searches = [ELECTRONICS, BEAUTY]
    return [
        Shopper(
            user_id=next(ids),
            preferences=_preferences(rng),
            searches=dict(enumerate(searches)).get(number // settings.queries_per_category),
        )
        for number in range(settings.shoppers)
    ]


def hidden_preferences(settings: DemoSettings) -> dict[str, HiddenPreferences]:
    """The secrets behind a store, by user id, worked out anew from its settings."""
    return {shopper.user_id: shopper.preferences for shopper in make_shoppers(settings)}


def unique_ids(rng: np.random.Generator, prefix: str, length: int) -> Iterator[str]:
    """Endless distinct ids of `prefix` and `length` random characters."""
    seen: set[str] = set()
    while True:
        made = prefix + "".join(rng.choice(ID_CHARACTERS, size=length))
        if made not in seen:
            seen.add(made)
            yield made


def _preferences(rng: np.random.Generator) -> HiddenPreferences:
    return HiddenPreferences(
        tastes={category: _taste(rng, category) for category in (ELECTRONICS, BEAUTY)},
        pastime_index=int(rng.integers(len(PASTIMES))),
    )


def _taste(rng: np.random.Generator, category: str) -> Taste:
    favourites = rng.choice(len(BRANDS[category]), size=FAVOURITE_BRANDS, replace=False)
    return Taste(
        category=category,
        brands=tuple(map(int, favourites)),
        traits={name: int(rng.integers(len(values))) for name, values in TRAITS[category].items()},
        tier=int(rng.integers(len(TIERS))),
    )
