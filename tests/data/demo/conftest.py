"""One small demo store for all tests of it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from memrerank.data.demo import DemoSettings, HiddenPreferences, hidden_preferences
from memrerank.data.demo.catalogue import Item
from memrerank.data.demo.shop import Shop, run_shop
from memrerank.data.demo.writer import write_demo_store


@dataclass(frozen=True)
class SmallStore:
    """The store with all that is known of it."""

    settings: DemoSettings
    root: Path
    shop: Shop
    preferences: dict[str, HiddenPreferences]
    items: dict[str, Item]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallStore:
    settings = DemoSettings(shoppers=120, products=900, queries_per_category=40)
    root = tmp_path_factory.mktemp("demo") / "store"
    write_demo_store(root, settings)
    shop = run_shop(settings)
    items = {item.id: item for item in shop.items}
    return SmallStore(settings, root, shop, hidden_preferences(settings), items)
