"""The packed pass against one plain pass per sequence."""

import math
from collections.abc import Callable

import pytest
import torch
from small_policies import gradients, plain_log_probs, random_group, small_policy
from tiny import random_llama, random_qwen2
from transformers import PreTrainedModel

from memrerank.grpo.logprobs import decoder_and_head, pack_group, token_log_probs, unpack
from memrerank.schema import Rollout, RolloutGroup

MODELS = pytest.mark.parametrize("make", [random_llama, random_qwen2], ids=["llama", "qwen2"])
GROUPS = [
    random_group(prompt=11, lengths=[5, 1, 12, 7]),
    random_group(prompt=1, lengths=[3, 3], seed=1),
    random_group(prompt=40, lengths=[24], seed=2),
]


# ---------------------------------------------------------------- against the plain pass


@MODELS
@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("group", GROUPS, ids=["unequal", "short prompt", "one completion"])
def test_log_probs_and_gradients_equal_those_of_plain_passes(
    make: Callable[[], PreTrainedModel], group: RolloutGroup, temperature: float
) -> None:
    policy = small_policy(make())
    plain = [log_probs for log_probs, _ in plain_log_probs(policy, group, temperature)]
    weights = torch.randn(
        sum(map(len, plain)), generator=torch.Generator().manual_seed(1)
    )  # stand in for advantages
    (torch.cat(plain) * weights).mean().backward()
    expected = gradients(policy)

    packed, _ = token_log_probs(policy, pack_group(group, pad_id=1), temperature)
    (packed * weights).mean().backward()
    found = gradients(policy)

    torch.testing.assert_close(packed, torch.cat(plain), rtol=0, atol=1e-5)
    assert set(found) == set(expected)
    assert len(found) == 2 * 4 * 2  # A and B of four projections in two layers
    assert max(gradient.abs().max() for gradient in found.values()) > 1e-3
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-5)


@MODELS
def test_entropies_equal_those_of_plain_passes(make: Callable[[], PreTrainedModel]) -> None:
    policy = small_policy(make())
    plain = torch.cat([entropy for _, entropy in plain_log_probs(policy, GROUPS[0], 0.7)])
    _, entropy = token_log_probs(policy, pack_group(GROUPS[0], pad_id=1), 0.7)
    torch.testing.assert_close(entropy, plain, rtol=0, atol=1e-5)
    assert not entropy.requires_grad


def test_a_head_of_zeros_is_uniform_over_the_vocabulary() -> None:
    model = random_llama()
    model.lm_head.weight.data.zero_()
    log_probs, entropy = token_log_probs(model, pack_group(GROUPS[0], pad_id=1), 1.0)
    assert entropy.tolist() == pytest.approx([math.log(384)] * 25, abs=1e-5)
    assert log_probs.tolist() == pytest.approx([-math.log(384)] * 25, abs=1e-5)


def test_padding_and_chunks_change_nothing() -> None:
    policy = small_policy(random_llama())
    reference, _ = token_log_probs(policy, pack_group(GROUPS[0], pad_id=1, multiple=1), 1.0)
    padded, _ = token_log_probs(policy, pack_group(GROUPS[0], pad_id=1, multiple=64), 1.0)
    other_pad, _ = token_log_probs(policy, pack_group(GROUPS[0], pad_id=77, multiple=64), 1.0)
    chunked, _ = token_log_probs(policy, pack_group(GROUPS[0], pad_id=1), 1.0, chunk=4)
    for values in (padded, other_pad, chunked):
        torch.testing.assert_close(values, reference, rtol=0, atol=1e-5)


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    found = []
    for checkpointing in (False, True):
        base = random_llama()
        if checkpointing:
            base.gradient_checkpointing_enable({"use_reentrant": False})
            base.enable_input_require_grads()
        policy = small_policy(base).train()
        values, _ = token_log_probs(policy, pack_group(GROUPS[0], pad_id=1), 1.0)
        values.sum().backward()
        found.append(gradients(policy))
    assert set(found[0]) == set(found[1])
    for name in found[0]:
        torch.testing.assert_close(found[1][name], found[0][name], rtol=1e-5, atol=1e-5)


def test_completions_do_not_see_each_other() -> None:
    policy = small_policy(random_llama())
    group = GROUPS[0]
    lone = RolloutGroup(group.prompt_ids, group.rollouts[2:3])
    together, _ = token_log_probs(policy, pack_group(group, pad_id=1), 1.0)
    alone, _ = token_log_probs(policy, pack_group(lone, pad_id=1), 1.0)
    torch.testing.assert_close(together[6:18], alone, rtol=0, atol=1e-5)


# ---------------------------------------------------------------- layout by hand


def rollout(*tokens: int) -> Rollout:
    return Rollout(tokens, (0.0,) * len(tokens), "", truncated=False)


SMALL = RolloutGroup((7, 8), (rollout(1, 2), rollout(3)))


def test_pack_group_by_hand() -> None:
    packed = pack_group(SMALL, pad_id=9, multiple=4)
    assert packed.input_ids.tolist() == [[7, 8, 1, 2, 3, 9, 9, 9]]
    assert packed.position_ids.tolist()[0][:5] == [0, 1, 2, 3, 2]
    assert packed.predictors.tolist() == [1, 2, 1]
    assert packed.targets.tolist() == [1, 2, 3]
    assert packed.rollout.tolist() == [0, 0, 1]
    assert packed.offset.tolist() == [0, 1, 0]
    assert packed.allowed[0, 0, :5, :5].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],  # the second completion sees the prompt and itself
    ]
    assert not packed.allowed[0, 0, :5, 5:].any()  # nothing sees the padding
    assert packed.allowed[0, 0].diagonal().all()  # and no row is empty


def test_unpack_puts_tokens_back_in_rows() -> None:
    packed = pack_group(SMALL, pad_id=9, multiple=4)
    values = torch.tensor([-1.0, -2.0, -3.0], requires_grad=True)
    rows = unpack(values, packed, rollouts=2, width=3)
    assert rows.tolist() == [[-1.0, -2.0, 0.0], [-3.0, 0.0, 0.0]]
    (rows * torch.tensor([[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]])).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [1.0, 2.0, 3.0]


def test_decoder_and_head_are_found_behind_an_adapter() -> None:
    base = random_llama()
    assert decoder_and_head(base) == (base.model, base.lm_head)
    assert decoder_and_head(small_policy(base)) == (base.model, base.lm_head)
