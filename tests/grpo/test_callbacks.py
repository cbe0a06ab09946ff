"""Which adapter is kept, and how sampled memories are shown."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_policies import small_policy
from tiny import random_llama

from memrerank.errors import ConfigError
from memrerank.grpo.callbacks import MONITOR, BestAdapter, MemorySamples, memory_rows
from memrerank.grpo.module import GRPOModule
from memrerank.memory.extractor import AdapterCard, load_adapter, read_card
from memrerank.schema import (
    History,
    Query,
    Rewards,
    Rollout,
    RolloutGroup,
    SetwiseInstance,
    TrainingCase,
)

NAN = float("nan")
CARD = AdapterCard("a/model", "Electronics", "wc", "0123")


class Validations:
    """Feeds a BestAdapter with dev results; each step has an adapter of its own."""

    def __init__(self, folder: Path) -> None:
        self.announced: list[Path] = []
        self.callback = BestAdapter(folder, CARD, self.announced.append, every_steps=2)
        self.module = GRPOModule.__new__(GRPOModule)
        torch.nn.Module.__init__(self.module)

    def result(self, step: int, mrr: float) -> None:
        self.module.policy = small_policy(random_llama(), seed=step)
        trainer = SimpleNamespace(
            callback_metrics={MONITOR: torch.tensor(mrr, dtype=torch.float64)}, global_step=step
        )
        self.callback.on_validation_end(trainer, self.module)  # type: ignore[arg-type]


def outputs(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(2, 12)[None]).logits


def test_the_adapter_with_the_best_dev_ranking_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    dev = Validations(folder)
    for step, mrr in ((0, 0.9), (2, 0.3), (4, 0.5), (6, 0.5), (8, 0.4)):
        dev.result(step, mrr)
        assert folder.exists() == (step > 0)  # the untrained adapter is never kept
    card = read_card(folder)
    assert (card.step, card.dev_mrr_at_10) == (4, 0.5)  # of equals, the earlier
    assert card.model == "a/model"
    kept = load_adapter(random_llama(), folder)
    assert torch.equal(outputs(kept), outputs(small_policy(random_llama(), seed=4)))
    assert dev.announced == [folder, folder]  # steps 2 and 4


def test_a_dev_ranking_of_zero_is_still_an_adapter(tmp_path: Path) -> None:
    dev = Validations(tmp_path)
    dev.result(2, 0.0)
    assert read_card(tmp_path).step == 2


def test_a_resumed_run_knows_the_best_so_far(tmp_path: Path) -> None:
    first = Validations(tmp_path)
    first.result(2, 0.5)
    resumed = Validations(tmp_path)
    resumed.callback.load_state_dict(first.callback.state_dict())
    resumed.result(4, 0.4)
    assert (resumed.callback.best, resumed.callback.best_step) == (0.5, 2)
    assert resumed.callback.ranked_step == 4
    assert resumed.announced == []
    assert read_card(tmp_path).step == 2


# ---------------------------------------------------------------- sampled memories


def group(*texts: str) -> RolloutGroup:
    query = Query("q", "a lamp", "u", "p", "Electronics", 9)
    instance = SetwiseInstance("q/bm25/0", "q", "bm25", (), 0)
    rollouts = tuple(Rollout((1,), (0.0,), text, truncated=text == "cut") for text in texts)
    case = TrainingCase(query, History("u", "Electronics", (), ()), instance)
    return RolloutGroup((1,), rollouts, case)


GROUP = group("good", "lost", "best", "cut")
REWARDS = Rewards(
    np.array([[0.5, NAN, 0.9, 0.1]]),
    {
        "utility": np.array([[0.4, NAN, 0.8, 0.0]]),
        "quality": np.array([[1.0, 1.0, 1.0, 1.0]]),
    },
)


def test_rows_show_the_best_first_and_failures_last() -> None:
    rows = memory_rows([GROUP], REWARDS)
    assert [row["memory"] for row in rows] == ["best", "good", "cut", "lost"]
    assert rows[0] == {
        "query": "a lamp",
        "memory": "best",
        "reward": 0.9,
        "utility": 0.8,
        "quality": 1.0,
        "truncated": False,
    }
    assert rows[2]["truncated"]
    assert np.isnan(rows[3]["reward"])


def test_steps_between_are_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dev\.every_steps=0: use at least 1"):
        BestAdapter(tmp_path, CARD, lambda folder: None, every_steps=0)
    with pytest.raises(ConfigError, match=r"checkpoint\.memory_samples_every=0: use at least 1"):
        MemorySamples(lambda rows, step: None, every_steps=0)


@pytest.mark.parametrize(("every", "logged"), [(2, [1, 2, 4]), (3, [1, 3])])
def test_a_table_is_logged_at_the_first_step_and_every_few(every: int, logged: list[int]) -> None:
    tables: list[tuple[int, int]] = []
    callback = MemorySamples(lambda rows, step: tables.append((step, len(rows))), every)
    result = {"groups": [GROUP, GROUP], "rewards": REWARDS}
    for step in (1, 2, 3, 4):
        trainer = SimpleNamespace(global_step=step)
        callback.on_train_batch_end(trainer, None, result, [], step)  # type: ignore[arg-type]
    assert tables == [(step, 4) for step in logged]  # one group of the two
