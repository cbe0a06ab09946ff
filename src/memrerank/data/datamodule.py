"""The order of training and dev evaluation, as a LightningDataModule."""

from collections.abc import Iterator, Sequence
from typing import Any

import lightning.pytorch as pl
from torch.utils.data import DataLoader, IterableDataset

from memrerank.errors import ConfigError
from memrerank.schema import Query, TrainingCase
from memrerank.seeding import numpy_generator


class TrainingSchedule(IterableDataset):
    """Batches of training cases: a new permutation of all cases each epoch.

    Batch k is the same whenever it is asked for, so a resumed run starts at its batch without any
    saved state of a sampler. Every batch is full: an epoch's last cases are followed by the
    first of the next epoch.

    Raises:
        ConfigError: `batch_size` or `epochs` is below 1.
    """

    def __init__(
        self,
        cases: Sequence[TrainingCase],
        batch_size: int,
        epochs: int,
        seed: int,
        start: int = 0,
        max_batches: int | None = None,
    ) -> None:
        if batch_size < 1 or epochs < 1:
            raise ConfigError(
                f"grpo.prompts_per_step={batch_size}, grpo.epochs={epochs}: use at least 1 of each"
            )
        self.cases = cases
        self.batch_size = batch_size
        self.epochs = epochs
        self.seed = seed
        self.start = start  # batches already trained on
        self.max_batches = max_batches

    def __len__(self) -> int:
        batches = self.epochs * len(self.cases) // self.batch_size
        return batches if self.max_batches is None else min(batches, self.max_batches)

    def __iter__(self) -> Iterator[list[TrainingCase]]:
        orders: dict[int, Any] = {}
        for batch in range(self.start, len(self)):
            places = range(batch * self.batch_size, (batch + 1) * self.batch_size)
            epochs = {place // len(self.cases) for place in places}
            orders = {epoch: orders.get(epoch, self._order(epoch)) for epoch in epochs}
            yield [
                self.cases[orders[place // len(self.cases)][place % len(self.cases)]]
                for place in places
            ]

    def _order(self, epoch: int) -> Any:
        return numpy_generator(self.seed, "order", epoch).permutation(len(self.cases))


class MemoryDataModule(pl.LightningDataModule):
    """Training cases by schedule, and dev queries in fixed batches.

    Args:
        train: one case per setwise instance.
        dev: dev queries, in the batches in which their memories are written.
        steps_per_batch: optimizer steps that the module takes per batch (inner epochs).
        max_steps: optimizer steps after which training ends; -1 for all epochs.
    """

    def __init__(
        self,
        train: Sequence[TrainingCase],
        dev: Sequence[Sequence[Query]],
        batch_size: int,
        epochs: int,
        seed: int,
        steps_per_batch: int = 1,
        max_steps: int = -1,
    ) -> None:
        super().__init__()
        self.train = train
        self.dev = dev
        self.batch_size = batch_size
        self.epochs = epochs
        self.seed = seed
        self.steps_per_batch = steps_per_batch
        self.max_batches = None if max_steps < 0 else -(-max_steps // steps_per_batch)
        self.start = 0

    def state_dict(self) -> dict[str, Any]:
        """How many batches are done."""
        assert self.trainer is not None
        return {"batches": self.trainer.global_step // self.steps_per_batch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on after the batches that are done."""
        self.start = state_dict["batches"]

    def schedule(self) -> TrainingSchedule:
        """The batches that training goes through, those already done included in the count."""
        return TrainingSchedule(
            self.train, self.batch_size, self.epochs, self.seed, self.start, self.max_batches
        )

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.schedule(), batch_size=None, collate_fn=None)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.dev, batch_size=None, collate_fn=None)  # type: ignore[arg-type]
