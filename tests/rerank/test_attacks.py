"""Untrusted text in every field of every prompt: the structure stays, and so do the words.

Prompts are read back with a grammar of their own, written here.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from attacks import ATTACKS

from memrerank.memory.prompting import MemoryPrompt, PromptSettings
from memrerank.rerank.prompting import LABELS, plain, setwise_prompt
from memrerank.schema import (
    Comparison,
    History,
    Memory,
    Product,
    Purchase,
    Query,
    Question,
    Target,
)

FIELDS = ("title", "description", "query", "within", "cross")
FORMS = [
    (question, structured)
    for question in (Question.choose, Question.order)
    for structured in (False, True)
]
LONGEST_WORD = 61  # characters, the mark of a cut included

TEXT = r"([^<>\n]*)"


def grammar(labels: Sequence[str], *, memory: bool) -> str:
    """The user's message as a regular expression; each group is a field."""
    told = (
        f"<memory>\n<same_category>{TEXT}</same_category>\n"
        f"<other_categories>{TEXT}</other_categories>\n</memory>\n"
    )
    products = "".join(f'<product label="{label}">{TEXT}</product>\n' for label in labels)
    listed = re.escape(", ".join(labels))
    question = rf"(?:Which product|In which order) would this shopper buy[^<>\n]*: {listed}\."
    shared = f"<search>{TEXT}</search>\n{told if memory else ''}"
    return f"{shared}<products>\n{products}</products>\n{question}"


def harmless(size: int, *, memory: bool) -> Comparison:
    products = tuple(Product(f"p{i}", f"thing {i}", "plain", "Toys") for i in range(size))
    told = Memory("likes plain things", "buys tea") if memory else Memory()
    return Comparison("q", "a plain thing", told, products)


def attacked(base: Comparison, field: str, attack: str) -> Comparison:
    if field == "query":
        return replace(base, query=attack)
    if field in ("within", "cross"):
        return replace(base, memory=replace(base.memory, **{field: attack}))
    second = replace(base.candidates[1], **{field: attack})
    return replace(base, candidates=(base.candidates[0], second, *base.candidates[2:]))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@pytest.mark.parametrize("field", FIELDS)
def test_the_structure_of_the_question_survives(attack: str, field: str) -> None:
    for memory in (True, False) if field not in ("within", "cross") else (True,):
        for size in (5, 2):
            base = harmless(size, memory=memory)
            for question, structured in FORMS:
                asked = setwise_prompt(
                    attacked(base, field, attack), question, structured=structured
                )
                calm = setwise_prompt(base, question, structured=structured)
                check_prompt(asked, calm, size, memory=memory)


def check_prompt(asked, calm, size: int, *, memory: bool) -> None:
    labels = LABELS[:size]
    assert asked.system == calm.system  # what we say does not depend on what they say
    user = asked.messages[1]["content"]
    found = re.fullmatch(grammar(labels, memory=memory), user)
    assert found is not None
    outside = re.sub(r">[^<>\n]*</(?=search|same|other|product>)", "></", user)
    calm_user = calm.messages[1]["content"]
    assert outside == re.sub(r">[^<>\n]*</(?=search|same|other|product>)", "></", calm_user)
    for text in found.groups():
        assert not re.search(rf"(?<![^\W_])[{labels}](?![^\W_])", text)
        assert not re.search(r"(?i)\b(system|user|assistant|human|instructions?|answer)\s*:", text)
        assert not re.search(r"(?<![^\W_])[АВСЕΑΒΕ🅱🇧](?![^\W_])", text)  # look like labels
        assert not set("[]{}‹›〈〉⟨⟩❮❯") & set(text)
        assert re.sub(r"&(lt|gt|amp);", "", text).count("&") == 0
        assert text == "" or text.isprintable()
        assert max(map(len, text.split()), default=0) <= LONGEST_WORD + 4 * text.count("&")


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@pytest.mark.parametrize("style", ["compact", "full"])
def test_the_structure_of_the_extractors_prompt_survives(attack: str, style: str) -> None:
    def history(title: str, description: str) -> History:
        bought = (Purchase(Product("p", title, description, "Toys"), 1),)
        return History("u", "Toys", bought, bought)

    prompt = MemoryPrompt(Target.wc, PromptSettings(style, 5, 50, 30))
    calm, asked = (prompt.render(history(*pair)) for pair in (("x", "y"), (attack, attack)))
    assert len(asked.splitlines()) == len(calm.splitlines())
    tags = re.compile(r"</?\w+[^>]*>")
    assert tags.findall(asked) == tags.findall(calm)
    assert not re.search(r"<\|?(im_|eot|end|start|s>|think)", asked)
    assert asked.isprintable() or all(c.isprintable() or c == "\n" for c in asked)


def test_ordinary_texts_are_left_alone() -> None:
    for text in (
        "Vitamin B12 tablets, size A4, E27 bulb",
        "Crème brûlée set, 日本語, naïve",
        "16-inch MacBook Pro (M3), 2-in-1, 100% cotton, $5.99 each",
        "O'Reilly's \"Learning\" book; 3rd edition / paperback",
    ):
        assert plain(text) == text
    assert plain("5 < 6 & 7") == "5 &lt; 6 &amp; 7"
    assert plain("Model Z with I and J") == "Model Z with I and J"  # labels in use alone go
    assert plain("Vitamin C, plan B, size D") == "Vitamin c, plan b, size d"
    assert plain("supercalifragilisticexpialidocious" * 3).endswith("…")


def test_there_are_many_attacks() -> None:
    assert len(ATTACKS) >= 50
    assert len(set(ATTACKS.values())) == len(ATTACKS)


def test_a_query_reaches_no_prompt_but_through_a_comparison() -> None:
    """The extractor is not shown the query: memories are query-independent (paper)."""
    query = Query("q", "a very rare wish", "u", "p", "Toys", 1)
    bought = (Purchase(Product("p", "x", "", "Toys"), 1),)
    prompt = MemoryPrompt(Target.w, PromptSettings("compact", 5, 50, 30))
    assert query.text not in prompt.render(History("u", "Toys", bought, ()))
