"""Sampling against transformers' own generation, plain forward passes and hand-made numbers."""

import math
from collections.abc import Sequence

import pytest
import torch
from tiny import chat_tokenizer, llama_config, random_llama
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from memrerank.errors import ConfigError
from memrerank.memory.sampling import (
    Sampling,
    TransformersRolloutEngine,
    draw,
    end_token_ids,
    left_pad,
    nucleus,
    round_up,
)
from memrerank.schema import Rollout
from memrerank.seeding import numpy_generator

NO_END = (-7,)  # an id that no token has
PROMPTS = [
    numpy_generator(0, "prompt", length).integers(2, 380, length).tolist() for length in (3, 21, 9)
]


def engine(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, pad_multiple: int = 8, **sampling
) -> TransformersRolloutEngine:  # type: ignore[no-untyped-def]
    settings = Sampling(**{"max_new_tokens": 12, **sampling})
    return TransformersRolloutEngine(model, tokenizer, settings, pad_multiple=pad_multiple)


def rollouts(
    engine: TransformersRolloutEngine,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    count: int = 1,
) -> list[tuple[Rollout, ...]]:
    return [group.rollouts for group in engine.generate(prompts, count, seeds)]


# ---------------------------------------------------------------- against other implementations


@pytest.mark.parametrize("pad_multiple", [1, 8, 64])
def test_greedy_decoding_equals_transformers_token_for_token(
    llama: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, pad_multiple: int
) -> None:
    greedy = engine(llama, tokenizer, pad_multiple, temperature=0.0, max_new_tokens=24)
    ours = [one[0].token_ids for one in rollouts(greedy, PROMPTS, [0, 0, 0])]
    for prompt, tokens in zip(PROMPTS, ours, strict=True):
        output = llama.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=24,
            pad_token_id=tokenizer.pad_token_id,
        )
        assert tokens == tuple(output[0, len(prompt) :].tolist())


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_log_probs_are_those_of_a_plain_forward_pass(
    llama: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, temperature: float
) -> None:
    sampler = engine(llama, tokenizer, temperature=temperature)
    for prompt, group in zip(PROMPTS, rollouts(sampler, PROMPTS, [1, 2, 3], 4), strict=True):
        for rollout in group:
            sequence = torch.tensor([[*prompt, *rollout.token_ids]])
            with torch.no_grad():
                logits = llama(sequence).logits[0, len(prompt) - 1 : -1] / temperature
            plain = logits.log_softmax(-1).gather(-1, sequence[0, len(prompt) :, None])[:, 0]
            torch.testing.assert_close(
                torch.tensor(rollout.log_probs), plain, rtol=0, atol=2e-5, check_dtype=False
            )


# ---------------------------------------------------------------- seeds and batches


def test_a_prompts_completions_depend_on_its_seed_and_not_on_its_batch(
    llama: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    sampler = engine(llama, tokenizer)
    together = rollouts(sampler, PROMPTS, [5, 6, 7], 4)
    backwards = rollouts(sampler, PROMPTS[::-1], [7, 6, 5], 4)[::-1]
    alone = [
        rollouts(sampler, [prompt], [seed], 4)[0]
        for prompt, seed in zip(PROMPTS, (5, 6, 7), strict=True)
    ]
    tokens = [
        [[rollout.token_ids for rollout in group] for group in way]
        for way in (together, backwards, alone)
    ]
    assert tokens[0] == tokens[1] == tokens[2]


def test_another_seed_and_another_rollout_draw_other_completions(
    llama: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    sampler = engine(llama, tokenizer)
    first, second = rollouts(sampler, [PROMPTS[0]] * 2, [1, 2], 4)
    assert len({rollout.token_ids for rollout in (*first, *second)}) == 8


def test_sampling_is_done_in_eval_mode_and_leaves_the_mode_as_it_was(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    config = llama_config()
    config.attention_dropout = 0.5
    model = random_llama(config)
    sampler = engine(model, tokenizer)
    quiet = rollouts(sampler, PROMPTS, [1, 2, 3])
    model.train()
    assert rollouts(sampler, PROMPTS, [1, 2, 3]) == quiet
    assert model.training
    with pytest.raises(IndexError):
        sampler.generate([[10_000]], 1, [0])
    assert model.training


# ---------------------------------------------------------------- one draw

PROBABILITIES = torch.tensor([0.05, 0.5, 0.0, 0.3, 0.15])


def frequencies(sampling: Sampling, draws: int = 2000) -> list[float]:
    """How often each token is drawn when the uniform numbers are spread evenly over [0, 1)."""
    uniform = (torch.arange(draws) + 0.5) / draws
    tokens, _ = draw(PROBABILITIES.log().expand(draws, -1), uniform, sampling)
    return (torch.bincount(tokens, minlength=5) / draws).tolist()


def test_tokens_come_as_often_as_the_softmax_says() -> None:
    assert frequencies(Sampling(1)) == pytest.approx([0.05, 0.5, 0.0, 0.3, 0.15], abs=1e-3)


def test_the_temperature_divides_the_logits() -> None:
    # At temperature 0.5 probabilities are squared: 0.0025, 0.25, 0, 0.09, 0.0225 over 0.365.
    expected = [0.0025 / 0.365, 0.25 / 0.365, 0.0, 0.09 / 0.365, 0.0225 / 0.365]
    assert frequencies(Sampling(1, temperature=0.5)) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [
        (0.4, [0, 1, 0, 0, 0]),
        (0.7, [0, 0.625, 0, 0.375, 0]),  # 0.5 is not yet 0.7; 0.5 + 0.3 is
        (0.9, [0, 0.5 / 0.95, 0, 0.3 / 0.95, 0.15 / 0.95]),
        (0.999, [0.05, 0.5, 0, 0.3, 0.15]),
    ],
)
def test_the_nucleus_is_the_smallest_set_with_the_mass(top_p: float, expected: list[float]) -> None:
    assert frequencies(Sampling(1, top_p=top_p)) == pytest.approx(expected, abs=1e-3)
    kept = nucleus(PROBABILITIES.log()[None], top_p)[0].exp()
    assert kept.tolist() == pytest.approx(expected, abs=1e-6)


def test_a_uniform_number_decides_by_inverse_transform() -> None:
    uniform = torch.tensor([0.0, 0.049, 0.051, 0.549, 0.551, 0.849, 0.851, 0.999])
    tokens, log_probs = draw(PROBABILITIES.log().expand(8, -1), uniform, Sampling(1))
    assert tokens.tolist() == [0, 0, 1, 1, 3, 3, 4, 4]
    expected = [math.log(p) for p in (0.05, 0.05, 0.5, 0.5, 0.3, 0.3, 0.15, 0.15)]
    assert log_probs.tolist() == pytest.approx(expected, abs=1e-5)


def test_greedy_ignores_the_uniform_number_and_reports_the_plain_log_probability() -> None:
    tokens, log_probs = draw(
        PROBABILITIES.log().expand(2, -1), torch.tensor([0.0, 0.99]), Sampling(1, temperature=0.0)
    )
    assert tokens.tolist() == [1, 1]
    assert log_probs.tolist() == pytest.approx([math.log(0.5)] * 2, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_ends_of_the_unit_interval_never_draw_an_impossible_token(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 5000, generator=generator).to(dtype) * 3
    logits[:, :100] = logits[:, -100:] = float("-inf")
    for uniform in (0.0, 1 - 2**-24):
        tokens, log_probs = draw(logits, torch.full((64,), uniform), Sampling(1))
        assert tokens.min() >= 100
        assert tokens.max() < 4900
        assert log_probs.isfinite().all()


# ---------------------------------------------------------------- where a completion ends


@pytest.fixture(scope="module")
def quick_to_end() -> LlamaForCausalLM:
    """A model with sixty end tokens, so that completions end at many places."""
    return random_llama(llama_config(end=list(range(100, 160))))


def test_a_completion_is_cut_after_its_first_end_token(
    quick_to_end: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    sampler = engine(quick_to_end, tokenizer)
    ends = {tokenizer.eos_token_id, *range(100, 160)}
    assert set(sampler.end_ids) == ends
    cut = rollouts(sampler, PROMPTS, [1, 2, 3], 8)
    sampler.end_ids = NO_END
    full = rollouts(sampler, PROMPTS, [1, 2, 3], 8)
    lengths = set()
    for short, long in zip(sum(cut, ()), sum(full, ()), strict=True):
        first = next((i for i, token in enumerate(long.token_ids) if token in ends), None)
        length = 12 if first is None else first + 1
        assert short.token_ids == long.token_ids[:length]
        assert short.log_probs == pytest.approx(long.log_probs[:length], abs=1e-6)
        assert short.truncated == (first is None)
        words = short.token_ids if first is None else short.token_ids[:-1]
        assert short.text == tokenizer.decode(words, skip_special_tokens=True)
        lengths.add(length)
    assert {1, 12} < lengths  # ends at once, never, and in between


def test_all_sources_of_end_ids_count(tokenizer: PreTrainedTokenizerFast) -> None:
    model = random_llama(llama_config(end=[7, 9]))
    model.generation_config.eos_token_id = 11
    assert end_token_ids(model, tokenizer) == (tokenizer.eos_token_id, 7, 9, 11)
    model.config.eos_token_id = None
    model.generation_config.eos_token_id = None
    assert end_token_ids(model, tokenizer) == (tokenizer.eos_token_id,)


def test_the_answers_beginning_is_part_of_the_text_and_not_of_the_tokens(
    llama: LlamaForCausalLM,
) -> None:
    tokenizer = chat_tokenizer()
    plain = engine(llama, tokenizer)
    prefixed = TransformersRolloutEngine(
        llama, tokenizer, plain.sampling, "<within_category>Likes", pad_multiple=8
    )
    without = rollouts(plain, PROMPTS, [1, 2, 3])
    for (before,), (after,) in zip(without, rollouts(prefixed, PROMPTS, [1, 2, 3]), strict=True):
        assert after.text == "<within_category>Likes" + before.text
        assert after.token_ids == before.token_ids


def test_the_groups_keep_their_prompts_unpadded(
    llama: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    groups = engine(llama, tokenizer).generate(PROMPTS, 2, [1, 2, 3])
    assert [list(group.prompt_ids) for group in groups] == PROMPTS


# ---------------------------------------------------------------- padding


def test_left_pad_by_hand() -> None:
    ids, mask = left_pad([[5], [6, 7, 8]], pad_id=9, multiple=4)
    assert ids.tolist() == [[9, 9, 9, 5], [9, 6, 7, 8]]
    assert mask.tolist() == [[0, 0, 0, 1], [0, 1, 1, 1]]


def test_round_up() -> None:
    assert [round_up(length, 64) for length in (1, 64, 65)] == [64, 64, 128]


@pytest.mark.parametrize(
    "wrong",
    [{"max_new_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}],
    ids=str,
)
def test_settings_outside_their_range_are_refused(wrong: dict[str, float]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigError, match=rf"extractor\.sampling=.*'{name}': {value}.*will not do"):
        Sampling(**{"max_new_tokens": 4, **wrong})  # type: ignore[arg-type]
