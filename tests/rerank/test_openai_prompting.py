"""The question to a language model, and texts that try to be more than text."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrerank.errors import ConfigError
from memrerank.rerank.answers import parse_choice
from memrerank.rerank.prompting import plain, setwise_messages
from memrerank.schema import Comparison, Memory, Product


def _comparison(text: str, memory: Memory | None = None, query: str = "headphones") -> Comparison:
    texts = ["first", text, "third", "fourth", "fifth"]
    products = tuple(Product(f"p{i}", title, "", "Electronics") for i, title in enumerate(texts))
    return Comparison("q", query, memory or Memory(), products)


def test_the_question_shows_query_memory_and_labelled_products_in_order() -> None:
    system, user = setwise_messages(
        _comparison("Sony WH-1000XM5. Over-ear", Memory("prefers Sony", "travels"), "quiet flight")
    )
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"].splitlines() == [
        "<search>quiet flight</search>",
        "<memory>",
        "<same_category>prefers Sony</same_category>",
        "<other_categories>travels</other_categories>",
        "</memory>",
        "<products>",
        '<product label="A">first</product>',
        '<product label="B">Sony WH-1000XM5. Over-ear</product>',
        '<product label="C">third</product>',
        '<product label="D">fourth</product>',
        '<product label="E">fifth</product>',
        "</products>",
        "Which product would this shopper buy? Answer with one label: A, B, C, D, E.",
    ]
    assert "5 products" in system["content"]
    assert "memory" in system["content"]


def test_without_memory_nothing_speaks_of_one() -> None:
    for message in setwise_messages(_comparison("second")):
        assert "memory" not in message["content"]
        assert "category" not in message["content"]


def test_a_memory_for_one_category_has_one_field() -> None:
    user = setwise_messages(_comparison("second", Memory("prefers Sony")))[1]["content"]
    assert "<same_category>" in user
    assert "<other_categories>" not in user


def test_more_candidates_than_labels_name_the_setting() -> None:
    products = tuple(Product(str(i), "x", "", "c") for i in range(21))
    with pytest.raises(ConfigError, match=r"21 products.*at most 20; lower ranking\.set_size"):
        setwise_messages(Comparison("q", "x", Memory(), products))


@given(st.text(max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_becomes_one_printable_line_without_markup_or_labels(text: str) -> None:
    cleaned = plain(text)
    assert not set("<>[]{}\n\r") & set(cleaned)
    assert cleaned == "" or cleaned.isprintable()
    assert re.sub(r"&(lt|gt|amp);", "", cleaned).count("&") == 0
    assert not re.search(r"(?<![^\W_])[ABCDE](?![^\W_])", cleaned)


@given(st.text(alphabet=string.ascii_lowercase + string.digits + " ,.'-", max_size=80))
@settings(max_examples=100, deadline=None)
def test_ordinary_words_are_not_changed(text: str) -> None:
    words = [
        word for word in text.split() if not re.search(r"([^\w])\1{2,}", word) and len(word) <= 60
    ]
    assert plain(" ".join(words)) == " ".join(words)


def test_real_product_texts_stay_readable() -> None:
    text = "Vitamin C & E serum™, 1/2 oz <new>; 5-Pack (USB-C), Cooling System: 120mm"
    assert plain(text) == (
        "Vitamin c &amp; e serumTM, 1/2 oz &lt;new&gt;; 5-Pack (USB-c), Cooling System - 120mm"
    )
    assert (
        plain("Crème brûlée, 日本語, ABC, E27, iPad A1")
        == "Crème brûlée, 日本語, ABC, E27, iPad A1"
    )


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("A", 0),
        (" E\n", 4),
        ("**B**", 1),
        ("(C).", 2),
        ("Answer: D", 3),
        ("The answer is B", 1),
        ("Final answer: B", 1),
        ("Product C", 2),
        ("b", None),  # labels are capitals; small letters come out of product texts
        ("A, B", None),
        ("A A", None),
        ("AB", None),
        ("A great product", None),
        ("I choose B because", None),
        ("F", None),
        ("", None),
        ("1", None),
        ("Β", None),  # Greek
    ],
)
def test_an_answer_is_one_label_or_none(text: str, index: int | None) -> None:
    assert parse_choice(text, 5) == index


def test_a_label_beyond_the_candidates_is_none() -> None:
    assert [parse_choice(label, 3) for label in "ABCDE"] == [0, 1, 2, None, None]
