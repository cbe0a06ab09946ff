"""The GRPO module in a real Lightning loop, with a tiny policy and scripted rewards."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from small_policies import small_policy
from tiny import chat_tokenizer, random_llama
from torch.utils.data import DataLoader

from memrerank.data.datamodule import TrainingSchedule
from memrerank.errors import ConfigError, JudgeError
from memrerank.grpo import module as module_file
from memrerank.grpo.advantages import Scale
from memrerank.grpo.loss import LossSettings
from memrerank.grpo.module import GRPOModule, GRPOSettings
from memrerank.memory.prompting import MemoryPrompt, PromptSettings
from memrerank.memory.sampling import Sampling, TransformersRolloutEngine
from memrerank.schema import (
    History,
    Product,
    Purchase,
    Query,
    Rewards,
    RolloutGroup,
    SetwiseInstance,
    Target,
    TrainingCase,
)

NAN = float("nan")
SETTINGS = GRPOSettings(
    rollouts=4,
    inner_epochs=1,
    scale=Scale.group,
    sigma_floor=0.05,
    learning_rate=0.01,
    warmup_steps=0,
    weight_decay=0.1,
    max_grad_norm=1.0,
    max_failure_rate=0.5,
    loss=LossSettings(),
)


def case(number: int) -> TrainingCase:
    products = tuple(Product(f"p{number}{i}", f"Lamp {i}", "", "Electronics") for i in range(5))
    query = Query(f"q{number}", "a lamp", "u", products[0].id, "Electronics", 9)
    bought = Purchase(Product("b", f"Acme radio {number}", "", "Electronics"), 1)
    instance = SetwiseInstance(f"q{number}/bm25/0", query.id, "bm25", products, 0)
    return TrainingCase(query, History("u", "Electronics", (bought,), ()), instance)


CASES = [case(number) for number in range(4)]


def low_tokens(groups: Sequence[RolloutGroup]) -> Rewards:
    """The share of tokens with an id below 128: easy to learn, and easy to check."""
    share = np.array([[np.mean(np.array(r.token_ids) < 128) for r in g.rollouts] for g in groups])
    return Rewards(share, {"utility": share, "quality": np.zeros_like(share)})


def make_module(
    reward: Callable[..., Rewards] = low_tokens, seed: int = 0, **changes: Any
) -> GRPOModule:
    policy = small_policy(random_llama())
    engine = TransformersRolloutEngine(policy, chat_tokenizer(), Sampling(6), pad_multiple=32)
    prompt = MemoryPrompt(Target.w, PromptSettings("compact", 6, 8, 16))
    settings = replace(SETTINGS, **changes)
    return GRPOModule(policy, engine, prompt, reward, SimpleNamespace(), settings, seed)  # type: ignore[arg-type]


class Watch(pl.Callback):
    """Keeps each batch's metrics, and what the step returned."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, float]] = []
        self.outputs: list[Any] = []

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        self.metrics.append({k: float(v) for k, v in trainer.callback_metrics.items()})
        self.outputs.append(args[1])


def fit(module: GRPOModule, folder: Path, batches: int = 2, size: int = 2) -> tuple[Watch, int]:
    watch = Watch()
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[watch],
        default_root_dir=folder,
    )
    schedule = TrainingSchedule(CASES, size, epochs=100, seed=0, max_batches=batches)
    trainer.fit(module, DataLoader(schedule, batch_size=None, collate_fn=None))
    return watch, trainer.global_step


def weights(module: GRPOModule) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in module.named_parameters() if p.requires_grad}


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> bool:
    return any(not torch.equal(before[name], after[name]) for name in before)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Lightning's advice on loops of this size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ---------------------------------------------------------------- learning


def test_the_policy_learns_what_is_rewarded(tmp_path: Path) -> None:
    module = make_module(learning_rate=0.05, rollouts=8)
    watch, steps = fit(module, tmp_path, batches=25, size=4)
    rewards = [metrics["reward"] for metrics in watch.metrics]
    assert steps == 25
    assert np.mean(rewards[:5]) < 0.45  # by chance, a third of the tokens
    assert np.mean(rewards[-5:]) > 0.7


def test_the_same_seed_trains_the_same_and_another_does_not(tmp_path: Path) -> None:
    results = []
    for seed in (1, 1, 2):
        module = make_module(seed=seed)
        watch, _ = fit(module, tmp_path)
        metrics = [
            {k: v for k, v in row.items() if not k.startswith("seconds/")} for row in watch.metrics
        ]
        results.append((metrics, weights(module)))
    assert results[0][0] == results[1][0]
    assert not moved(results[0][1], results[1][1])
    assert moved(results[0][1], results[2][1])


def test_a_draw_depends_on_the_instance_and_not_on_its_batch() -> None:
    module = make_module()
    together = module.sample(CASES)
    (alone,) = module.sample(CASES[2:3])
    assert [group.case for group in together] == CASES
    assert together[2] == replace(alone, rollouts=together[2].rollouts)
    tokens = [[rollout.token_ids for rollout in g.rollouts] for g in (together[2], alone)]
    assert tokens[0] == tokens[1]
    same_prompt = replace(CASES[2], instance=replace(CASES[2].instance, id="another"))
    (other,) = module.sample([same_prompt])
    assert other.prompt_ids == alone.prompt_ids
    assert [rollout.token_ids for rollout in other.rollouts] != tokens[1]


def test_each_step_draws_anew(tmp_path: Path) -> None:
    module = make_module(learning_rate=0.0, weight_decay=0.0)
    watch, _ = fit(module, tmp_path, batches=2, size=4)  # the same four cases, in two orders
    drawn = [
        {g.case.instance.id: [r.token_ids for r in g.rollouts] for g in output["groups"]}
        for output in watch.outputs
    ]
    assert drawn[0].keys() == drawn[1].keys()
    assert all(drawn[0][id] != drawn[1][id] for id in drawn[0])


def test_flat_groups_move_nothing(tmp_path: Path) -> None:
    def flat(groups: Sequence[RolloutGroup]) -> Rewards:
        return Rewards(np.full((len(groups), 4), 0.3))

    module = make_module(flat)
    before = weights(module)
    watch, steps = fit(module, tmp_path)
    assert steps == 2
    assert not moved(before, weights(module))
    assert [row["flat_groups"] for row in watch.metrics] == [1.0, 1.0]
    assert [row["grad_norm"] for row in watch.metrics] == [0.0, 0.0]


def test_only_the_adapter_moves(tmp_path: Path) -> None:
    module = make_module()
    before = {n: p.detach().clone() for n, p in module.named_parameters()}
    fit(module, tmp_path)
    changed = {n for n, p in module.named_parameters() if not torch.equal(p, before[n])}
    assert changed
    assert all("lora_" in name for name in changed)


# ---------------------------------------------------------------- inner epochs


def test_later_inner_epochs_compare_with_the_first_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[tuple[list[Any], list[torch.Tensor]]] = []
    original = module_file.accumulate_gradients

    def spy(policy: Any, groups: Any, *args: Any) -> Any:
        result = original(policy, groups, *args)
        passes.append(([group.old for group in groups], result[1]))
        return result

    monkeypatch.setattr(module_file, "accumulate_gradients", spy)
    module = make_module(inner_epochs=3, learning_rate=0.05)
    watch, steps = fit(module, tmp_path, batches=1)
    assert steps == 3
    assert len(watch.metrics) == 1
    (first_old, first), (second_old, second), (third_old, _) = passes
    assert first_old == [None, None]
    for old in (second_old, third_old):
        assert all(torch.equal(a, b) for a, b in zip(old, first, strict=True))
    assert not torch.equal(first[0], second[0])
    assert watch.metrics[0]["clip/low"] + watch.metrics[0]["clip/high"] > 0


def test_one_inner_epoch_never_clips(tmp_path: Path) -> None:
    watch, _ = fit(make_module(learning_rate=0.05), tmp_path, batches=3)
    assert {row["clip/low"] + row["clip/high"] for row in watch.metrics} == {0.0}


# ---------------------------------------------------------------- failures


def failing(rate: float) -> Callable[[Sequence[RolloutGroup]], Rewards]:
    """Rewards of which this share is missing, the first ones of each group."""

    def reward(groups: Sequence[RolloutGroup]) -> Rewards:
        total = low_tokens(groups).total
        total[:, : int(rate * total.shape[1])] = NAN
        return Rewards(total)

    return reward


def test_too_many_failed_rewards_stop_the_run_before_the_policy_moves(tmp_path: Path) -> None:
    module = make_module(failing(0.75))
    before = weights(module)
    message = r"75% of the rewards of step 0 .*grpo\.max_failure_rate=0\.5.*ckpt_path"
    with pytest.raises(JudgeError, match=message):
        fit(module, tmp_path)
    assert not moved(before, weights(module))


def test_failures_up_to_the_share_are_left_out_and_counted(tmp_path: Path) -> None:
    module = make_module(failing(0.5))
    before = weights(module)
    watch, _ = fit(module, tmp_path)
    assert [row["failed_rewards"] for row in watch.metrics] == [0.5, 0.5]
    assert all(np.isfinite(row["reward"]) for row in watch.metrics)
    assert moved(before, weights(module))
    assert all(weight.isfinite().all() for weight in weights(module).values())


# ---------------------------------------------------------------- metrics


def test_a_step_reports_all_that_is_worth_watching(tmp_path: Path) -> None:
    watch, _ = fit(make_module(loss=LossSettings(beta=0.1)), tmp_path, batches=1)
    (metrics,) = watch.metrics
    assert set(metrics) == {
        *("loss", "kl", "entropy", "clip/low", "clip/high", "grad_norm"),
        *("reward", "reward/utility", "reward/quality", "reward/group_std"),
        *("flat_groups", "failed_rewards"),
        *("completion/mean_tokens", "completion/max_tokens", "completion/truncated"),
        *("seconds/rollout", "seconds/reward", "seconds/loss"),
    }
    output = watch.outputs[0]
    assert metrics["reward"] == pytest.approx(low_tokens(output["groups"]).total.mean())
    assert metrics["kl"] > 0  # the adapter differs from the model without it
    assert 0 < metrics["entropy"] < np.log(384)


# ---------------------------------------------------------------- settings


def test_the_rate_warms_up_linearly_to_a_constant() -> None:
    module = make_module(warmup_steps=4, learning_rate=1.0)
    optimizer, scheduler = module.configure_optimizers().values()
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_checkpoint_holds_the_adapter_alone() -> None:
    module = make_module()
    checkpoint = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    assert set(checkpoint["state_dict"]) == set(weights(module))
    assert all("lora_" in name for name in checkpoint["state_dict"])
    other = make_module()
    with torch.no_grad():
        for weight in other.parameters():
            weight += 1
    other.load_state_dict(checkpoint["state_dict"], strict=False)
    assert not moved(weights(module), weights(other))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollouts": 1}, r"grpo\.rollouts=1: .* at least 2"),
        ({"inner_epochs": 0}, r"grpo\.inner_epochs=0: use at least 1"),
    ],
)
def test_settings_that_cannot_learn_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SETTINGS, **changes)


def test_greedy_rollouts_are_refused() -> None:
    module = make_module()
    module.engine.sampling = Sampling(6, temperature=0.0)
    with pytest.raises(ConfigError, match=r"extractor\.sampling\.temperature=0 .* above 0"):
        GRPOModule(
            module.policy,
            module.engine,
            module.prompt,
            low_tokens,
            module.dev,
            SETTINGS,
            seed=0,
        )
