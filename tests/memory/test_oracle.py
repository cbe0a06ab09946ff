import pytest

from memrerank.data.demo import DemoSettings, HiddenPreferences, Taste, hidden_preferences
from memrerank.data.demo.vocabulary import BEAUTY, ELECTRONICS
from memrerank.errors import ConfigError
from memrerank.memory.oracle import OracleMemory, describe_pastime, describe_taste
from memrerank.schema import History, Target

SETTINGS = DemoSettings(shoppers=6, products=600, queries_per_category=3)
PREFERENCES = HiddenPreferences(
    tastes={
        ELECTRONICS: Taste(ELECTRONICS, (3, 0), {"style": 0, "finish": 2}, tier=2),
        BEAUTY: Taste(BEAUTY, (1, 2), {"ingredient": 1, "scent": 3, "ethos": 0}, tier=0),
    },
    pastime_index=2,
)


def history(user_id: str, category: str) -> History:
    return History(user_id, category, (), ())


def test_a_taste_in_words() -> None:
    assert describe_taste(PREFERENCES.tastes[ELECTRONICS]) == (
        "Likes Retro, Matte Black. Favorite brands: Tessaro and Norvane. Price: Premium."
    )
    assert describe_taste(PREFERENCES.tastes[BEAUTY]) == (
        "Likes Tea Tree, Unscented, Vegan. Favorite brands: Oluna and Fennic. Price: Budget."
    )


def test_a_pastime_in_words() -> None:
    assert describe_pastime(PREFERENCES) == "Buys things for Gaming."


@pytest.mark.parametrize("category", [ELECTRONICS, BEAUTY])
def test_the_cross_field_is_for_wc_alone(category: str) -> None:
    user, preferences = next(iter(hidden_preferences(SETTINGS).items()))
    (within,) = OracleMemory(SETTINGS, Target.w).build([history(user, category)])
    (both,) = OracleMemory(SETTINGS, Target.wc).build([history(user, category)])
    assert within.within == both.within == describe_taste(preferences.tastes[category])
    assert within.cross == ""
    assert both.cross == describe_pastime(preferences)
    assert within.flaws == both.flaws == ()


def test_memories_come_in_the_order_of_the_histories() -> None:
    users = list(hidden_preferences(SETTINGS))
    oracle = OracleMemory(SETTINGS, Target.wc)
    built = oracle.build([history(user, ELECTRONICS) for user in users])
    assert built[::-1] == oracle.build([history(user, ELECTRONICS) for user in users[::-1]])
    assert len(set(built)) > 1


@pytest.mark.parametrize(("user", "category"), [("A" * 28, ELECTRONICS), (None, "Toys_and_Games")])
def test_a_shopper_of_another_store_is_named(user: str | None, category: str) -> None:
    user = user or next(iter(hidden_preferences(SETTINGS)))
    with pytest.raises(ConfigError, match=f"user {user} in {category}"):
        OracleMemory(SETTINGS, Target.w).build([history(user, category)])
