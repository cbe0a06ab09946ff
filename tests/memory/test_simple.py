"""The baselines without a model, on a history small enough to read."""

from memrerank.memory.simple import NoMemory, RawHistory
from memrerank.schema import History, Memory, Product, Purchase, Target


def purchase(name: str, description: str, category: str, timestamp: int) -> Purchase:
    return Purchase(Product(name, name, description, category), timestamp)


HISTORY = History(
    "u",
    "Electronics",
    (
        purchase("Lamp", "warm  light", "Electronics", 1),
        purchase("Radio", "", "Electronics", 3),
    ),
    (purchase("Pan", "cast iron, heavy", "Home", 2),),
)
EMPTY = History("v", "Electronics", (), ())


def test_no_memory_is_empty() -> None:
    assert NoMemory().build([HISTORY, EMPTY]) == [Memory(), Memory()]


def test_raw_history_lists_purchases_newest_first() -> None:
    within = "Radio\nLamp. warm light"
    assert RawHistory(Target.w).build([HISTORY, EMPTY]) == [Memory(within, ""), Memory()]
    assert RawHistory(Target.wc).build([HISTORY]) == [Memory(within, "Pan. cast iron, heavy")]


def test_raw_history_is_cut_at_max_words_per_product() -> None:
    (memory,) = RawHistory(Target.wc, max_words=2).build([HISTORY])
    assert memory == Memory("Radio\nLamp. warm", "Pan. cast")
