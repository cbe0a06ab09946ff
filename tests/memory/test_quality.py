"""Each component of memory quality, worked out by hand."""

import pytest

from memrerank.memory.parsing import ParsedMemory, parse_memory
from memrerank.memory.quality import (
    QualitySettings,
    is_placeholder,
    memory_quality,
    overlength,
    repetition,
    unsupported,
)
from memrerank.schema import History, Memory, Product, Purchase, Target

HEADPHONES = Product("p1", "Sony WH-1000XM4 Headphones", "wireless noise cancelling", "Electronics")
LAMP = Product("p2", "Walnut Desk Lamp", "", "Home")
HISTORY = History("u", "Electronics", (Purchase(HEADPHONES, 1),), (Purchase(LAMP, 2),))


def quality_of(memory: Memory, evidence: tuple[str, ...] = (), **options: object) -> dict:
    settings = QualitySettings(max_words=10)
    target = options.get("target", Target.w)
    words = options.get("raw_words", 5)
    return memory_quality(ParsedMemory(memory, evidence), words, HISTORY, target, settings)


def test_a_clean_memory_has_quality_one() -> None:
    assert quality_of(Memory("Prefers wireless Sony headphones")) == {
        "within": 1.0,
        "format": 0.0,
        "repetition": 0.0,
        "length": 0.0,
        "placeholder": 0.0,
        "evidence": 0.0,
        "quality": 1.0,
    }


def test_an_empty_memory_earns_nothing_and_loses_by_its_flaws() -> None:
    parts = quality_of(Memory(flaws=("missing <within_category>",)))
    assert parts["within"] == 0.0
    assert parts["format"] == pytest.approx(1 / 3)
    assert parts["quality"] == pytest.approx(-0.3 / 3)


def test_quality_is_the_weighted_sum() -> None:
    # format 2/3, length (13 - 10) / 10, evidence 1 of 2 unsupported
    parts = quality_of(
        Memory("likes red things", flaws=("a", "b")), ("Sony headphones", "iron pan"), raw_words=13
    )
    assert parts["quality"] == pytest.approx(1 - 0.3 * 2 / 3 - 0.2 * 0.3 - 0.2 * 0.5)


def test_the_scale_is_the_larger_of_reward_and_penalties() -> None:
    settings = QualitySettings(0.5, format=1, repetition=1, length=1, placeholder=1, evidence=1)
    best = ParsedMemory(Memory("likes red"), ())
    assert memory_quality(best, 2, HISTORY, Target.w, settings)["quality"] == pytest.approx(0.1)
    nothing = QualitySettings(0, format=0, repetition=0, length=0, placeholder=0, evidence=0)
    assert memory_quality(best, 2, HISTORY, Target.w, nothing)["quality"] == 0.0


def test_the_worst_memory_has_quality_minus_one_at_most() -> None:
    text = "<b><i><u> none " + "none " * 500 + "<evidence>gold ring"
    parsed = parse_memory(f"<within_category>{text}", Target.w)
    parts = memory_quality(parsed, 1000, HISTORY, Target.w, QualitySettings())
    assert parts["within"] == 0.0
    assert parts["format"] == parts["length"] == parts["placeholder"] == parts["evidence"] == 1.0
    assert parts["repetition"] == pytest.approx(1 - 1 / 499)
    assert -1.0 <= parts["quality"] < -0.999


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0.0),
        ("red", 0.0),
        ("red blue green", 0.0),
        ("red Red red, red", 0.5),  # 2 trigrams, 1 distinct
        ("a b c a b c", 0.25),  # abc bca cab abc
    ],
)
def test_repetition(text: str, expected: float) -> None:
    assert repetition(text) == pytest.approx(expected)


def test_repetition_sees_one_field_copied_to_the_other() -> None:
    parts = quality_of(Memory("red blue green", "red blue green"), target=Target.wc)
    assert parts["repetition"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("words", "expected"), [(0, 0.0), (100, 0.0), (150, 0.5), (200, 1.0), (900, 1.0)]
)
def test_overlength(words: int, expected: float) -> None:
    assert overlength(words, 100) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    ["N/A", "none.", "None; n/a", "...", "No preferences found", "[your preferences]", "- unknown"],
)
def test_placeholders(text: str) -> None:
    assert is_placeholder(text)


@pytest.mark.parametrize("text", ["", "   ", "Prefers none but Sony", "likes (red) lamps"])
def test_not_placeholders(text: str) -> None:
    assert not is_placeholder(text)


def test_placeholder_is_the_share_of_fields() -> None:
    parts = quality_of(Memory("likes red things", "N/A"), target=Target.wc)
    assert (parts["within"], parts["placeholder"]) == (1.0, 0.5)
    parts = quality_of(Memory("none"))
    assert (parts["within"], parts["placeholder"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([], 0.0),
        (["Sony headphones"], 0.0),
        (["the walnut lamp"], 0.0),  # cross purchases count; "the" does not
        (["Sony lamp"], 0.0),  # half of the words are enough
        (["Sony lamp pan"], 1.0),  # 1 of 3 in each purchase
        (["iron pan", "walnut desk"], 0.5),
        (["--"], 1.0),
    ],
)
def test_unsupported(claims: list[str], expected: float) -> None:
    assert unsupported(claims, HISTORY) == expected


def test_quoted_phrases_are_claims() -> None:
    parts = quality_of(Memory('bought "Walnut Desk Lamp" and “Gucci bag”, 5" wide'))
    assert parts["evidence"] == 0.5
