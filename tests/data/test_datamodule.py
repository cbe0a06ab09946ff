"""The order of training: every case once an epoch, and the same batch k wherever one starts."""

from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from memrerank.data.datamodule import MemoryDataModule, TrainingSchedule
from memrerank.errors import ConfigError
from memrerank.schema import History, Query, SetwiseInstance, TrainingCase


def case(number: int) -> TrainingCase:
    query = Query(f"q{number}", "a lamp", "u", "p", "Electronics", 9)
    instance = SetwiseInstance(f"q{number}/bm25/0", query.id, "bm25", (), 0)
    return TrainingCase(query, History("u", "Electronics", (), ()), instance)


CASES = [case(number) for number in range(10)]
ALL = sorted(one.query.id for one in CASES)


def ids(batches: Any) -> list[list[str]]:
    return [[one.query.id for one in batch] for batch in batches]


def schedule(batch_size: int = 5, epochs: int = 3, seed: int = 0, **more: Any) -> TrainingSchedule:
    return TrainingSchedule(CASES, batch_size, epochs, seed, **more)


# ---------------------------------------------------------------- schedule


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 5, 10])
def test_each_epoch_covers_each_case_once(batch_size: int) -> None:
    batches = ids(schedule(batch_size))
    assert [len(batch) for batch in batches] == [batch_size] * (30 // batch_size)
    order = list(chain(*batches))
    for epoch in range(len(order) // 10):
        assert sorted(order[10 * epoch : 10 * epoch + 10]) == ALL


def test_batches_larger_than_the_epoch_go_on_into_the_next() -> None:
    order = list(chain(*ids(schedule(batch_size=15, epochs=6))))
    assert len(order) == 60
    for epoch in range(6):
        assert sorted(order[10 * epoch : 10 * epoch + 10]) == ALL


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    first, second = ids(schedule(batch_size=10, epochs=2))
    (other_seed,) = ids(schedule(batch_size=10, epochs=1, seed=1))
    assert len({tuple(order) for order in (first, second, other_seed, ALL)}) == 4
    assert ids(schedule(batch_size=10, epochs=2)) == [first, second]


@pytest.mark.parametrize("start", [0, 1, 4, 7, 8])
def test_a_batch_does_not_depend_on_where_one_starts(start: int) -> None:
    # 30 places in batches of 4: 7 of them, some over the edge of an epoch.
    assert ids(schedule(batch_size=4, start=start)) == ids(schedule(batch_size=4))[start:]


def test_more_epochs_add_batches_and_change_none() -> None:
    assert ids(schedule(epochs=5))[:6] == ids(schedule(epochs=3))


def test_the_length_counts_all_batches_up_to_the_cap() -> None:
    assert len(schedule(batch_size=4)) == 7
    assert len(schedule(batch_size=4, max_batches=3)) == 3
    assert len(ids(schedule(batch_size=4, max_batches=3))) == 3
    assert len(schedule(batch_size=4, max_batches=99)) == 7


@pytest.mark.parametrize(("batch_size", "epochs"), [(0, 1), (1, 0)])
def test_sizes_below_one_are_refused(batch_size: int, epochs: int) -> None:
    message = rf"grpo\.prompts_per_step={batch_size}, grpo\.epochs={epochs}: use at least 1"
    with pytest.raises(ConfigError, match=message):
        schedule(batch_size, epochs)


# ---------------------------------------------------------------- data module

DEV = [[CASES[0].query, CASES[1].query], [CASES[2].query]]


def data_module(**more: Any) -> MemoryDataModule:
    return MemoryDataModule(CASES, DEV, batch_size=4, epochs=3, seed=0, **more)


def test_dev_batches_come_as_they_are() -> None:
    assert list(data_module().val_dataloader()) == DEV


def test_the_loader_hands_out_the_schedule() -> None:
    module = data_module()
    assert ids(module.train_dataloader()) == ids(schedule(batch_size=4))
    assert len(module.train_dataloader()) == 7


@pytest.mark.parametrize(
    ("max_steps", "steps_per_batch", "batches"),
    [(-1, 1, 7), (3, 1, 3), (4, 2, 2), (5, 2, 3), (99, 1, 7)],
)
def test_optimizer_steps_are_counted_in_batches(
    max_steps: int, steps_per_batch: int, batches: int
) -> None:
    module = data_module(max_steps=max_steps, steps_per_batch=steps_per_batch)
    assert len(list(module.train_dataloader())) == batches


@pytest.mark.parametrize(("global_step", "steps_per_batch", "done"), [(3, 1, 3), (6, 2, 3)])
def test_a_resumed_module_goes_on_where_the_saved_one_stood(
    global_step: int, steps_per_batch: int, done: int
) -> None:
    saved = data_module(steps_per_batch=steps_per_batch)
    saved.trainer = SimpleNamespace(global_step=global_step)  # type: ignore[assignment]
    resumed = data_module(steps_per_batch=steps_per_batch)
    resumed.load_state_dict(saved.state_dict())
    assert ids(resumed.train_dataloader()) == ids(saved.train_dataloader())[done:]
