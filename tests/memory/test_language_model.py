"""Memories written by a model: in order, and whatever the batch."""

from dataclasses import replace

import pytest
from tiny import random_llama
from transformers import PreTrainedTokenizerFast

from memrerank.memory.language_model import LanguageModelMemory
from memrerank.memory.parsing import parse_memory
from memrerank.memory.prompting import MemoryPrompt, PromptSettings
from memrerank.memory.sampling import Sampling, TransformersRolloutEngine
from memrerank.schema import History, Product, Purchase, Target

PREFIX = "<within_category>Likes"
PROMPT = MemoryPrompt(Target.wc, PromptSettings("compact", 6, 8, 16, PREFIX))


def history(*titles: str, user: str = "u") -> History:
    bought = tuple(Purchase(Product(t, t, "", "Electronics"), i) for i, t in enumerate(titles))
    return History(user, "Electronics", bought, ())


HISTORIES = [
    history("Acme lamp", "A tent of many long words", "Acme radio"),
    history(),
    history("Sony headphones"),
    history("Acme lamp"),
]


@pytest.fixture(scope="module")
def engine(tokenizer: PreTrainedTokenizerFast) -> TransformersRolloutEngine:
    return TransformersRolloutEngine(random_llama(), tokenizer, Sampling(8), PREFIX)


def source(
    engine: TransformersRolloutEngine, seed: int = 0, batch: int = 16
) -> LanguageModelMemory:
    return LanguageModelMemory(engine, PROMPT, seed, batch)


def test_memories_come_in_order_whatever_the_batch(engine: TransformersRolloutEngine) -> None:
    together = source(engine).build(HISTORIES)
    assert source(engine, batch=1).build(HISTORIES) == together
    assert source(engine, batch=3).build(HISTORIES) == together
    assert source(engine).build(HISTORIES[::-1]) == together[::-1]
    assert [source(engine).build([one])[0] for one in HISTORIES] == together
    assert len({memory.text for memory in together}) == len(HISTORIES)


def test_the_seed_decides_and_the_user_does_not(engine: TransformersRolloutEngine) -> None:
    first, same, other_user = source(engine).build(
        [HISTORIES[0], HISTORIES[0], replace(HISTORIES[0], user_id="v")]
    )
    assert first == same == other_user
    assert source(engine, seed=1).build(HISTORIES[:1]) != [first]


def test_a_memory_is_what_the_parser_makes_of_the_text(engine: TransformersRolloutEngine) -> None:
    groups = source(engine).sample(HISTORIES)
    memories = source(engine).build(HISTORIES)
    for group, memory, one in zip(groups, memories, HISTORIES, strict=True):
        (rollout,) = group.rollouts
        assert list(group.prompt_ids) == PROMPT.token_ids(one, engine.tokenizer)
        assert rollout.text.startswith(PREFIX)
        assert memory == parse_memory(rollout.text, Target.wc).memory
    assert all("missing <cross_category>" in memory.flaws for memory in memories)


def test_no_histories_are_no_memories(engine: TransformersRolloutEngine) -> None:
    assert source(engine).build([]) == []
