"""What a training run leaves behind besides its metrics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.trainer.states import TrainerFn

from memrerank.errors import ConfigError
from memrerank.grpo.module import GRPOModule
from memrerank.memory.extractor import AdapterCard, save_adapter
from memrerank.rerank.asking import Asker
from memrerank.schema import Rewards, RolloutGroup

MONITOR = "dev/mrr_at_10"  # the paper chooses the checkpoint by dev reranking performance


class BestAdapter(pl.Callback):
    """Keeps the adapter that ranks best on dev, in PEFT's layout, from the moment it is best.

    A checkpoint of a step at which dev is ranked is written before that ranking. A training that
    is resumed from it ranks dev first, so that the step is not passed over.

    Args:
        folder: where the adapter goes.
        card: what it is trained for.
        announce: called with the folder whenever a better adapter has been written.
        every_steps: optimizer steps between rankings of dev.

    Raises:
        ConfigError: `every_steps` is below 1.
    """

    def __init__(
        self, folder: Path, card: AdapterCard, announce: Callable[[Path], None], every_steps: int
    ) -> None:
        if every_steps < 1:
            raise ConfigError(f"dev.every_steps={every_steps}: use at least 1")
        self.folder = folder
        self.card = card
        self.announce = announce
        self.every_steps = every_steps
        self.best: float | None = None
        self.best_step = 0
        self.ranked_step = 0

    def state_dict(self) -> dict[str, Any]:
        names = ("best", "best_step", "ranked_step")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name, value in state_dict.items():
            setattr(self, name, value)

    def is_due(self, trainer: pl.Trainer) -> bool:
        """Whether dev should have been ranked at this step, and has not been."""
        step = trainer.global_step
        return step % self.every_steps == 0 and self.ranked_step < step

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Ranks dev where the resumed run was stopped before it could."""
        loop = trainer.fit_loop.epoch_loop.val_loop
        # A run stopped in the middle of a ranking repeats it by itself.
        if self.is_due(trainer) and not loop.restarted_mid_evaluation:
            trainer.validating = True
            loop.run()
            trainer.training = True

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Ties go to the earlier step. Step 0, the untrained adapter, is never kept."""
        assert isinstance(pl_module, GRPOModule)
        value = float(trainer.callback_metrics[MONITOR])
        self.ranked_step = trainer.global_step
        if trainer.global_step == 0 or (self.best is not None and value <= self.best):
            return
        self.best, self.best_step = value, trainer.global_step
        card = replace(self.card, step=self.best_step, dev_mrr_at_10=value)
        save_adapter(pl_module.policy, self.folder, card)
        self.announce(self.folder)


class InterruptedCheckpoint(pl.Callback):
    """Saves where training stood when Ctrl-C or an error stops it.

    Lightning's own OnExceptionCheckpoint has a side effect: with it, a training that is started
    anew in a used folder goes on, unasked, from whatever checkpoint lies there.

    Args:
        path: the checkpoint; removed when a training that was resumed from it has ended well.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Nothing is saved before the first step: there is nothing to go on from."""
        if trainer.state.fn is TrainerFn.FITTING and trainer.global_step:
            # The step that was begun does not count: steps between rankings are counted from here.
            trainer.fit_loop.epoch_loop.batch_progress.total.reset_on_restart()
            trainer.save_checkpoint(self.path)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.path.unlink(missing_ok=True)


class MemorySamples(pl.Callback):
    """Puts a table of sampled memories with their rewards into the record every few steps.

    Args:
        log_table: takes rows and the step.
        every_steps: optimizer steps between tables.
        groups: how many groups of the batch are shown.

    Raises:
        ConfigError: `every_steps` is below 1.
    """

    def __init__(
        self,
        log_table: Callable[[Sequence[Mapping[str, Any]], int], None],
        every_steps: int,
        groups: int = 1,
    ) -> None:
        if every_steps < 1:
            raise ConfigError(f"checkpoint.memory_samples_every={every_steps}: use at least 1")
        self.log_table = log_table
        self.every_steps = every_steps
        self.groups = groups

    def on_train_batch_end(  # type: ignore[override]
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Mapping[str, Any],
        batch: Any,
        batch_idx: int,
    ) -> None:
        step = trainer.global_step
        if step == 1 or step % self.every_steps == 0:
            shown = outputs["groups"][: self.groups]
            self.log_table(memory_rows(shown, outputs["rewards"]), step)


class JudgeMetrics(pl.Callback):
    """Records what the judge's answers have come to; a resumed run counts on.

    Args:
        judge: what is asked.
        log_metrics: takes metrics and the step.
    """

    def __init__(
        self, judge: Asker, log_metrics: Callable[[Mapping[str, float], int], None]
    ) -> None:
        self.judge = judge
        self.log_metrics = log_metrics

    def state_dict(self) -> dict[str, Any]:
        return self.judge.state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.judge.restore(state_dict)

    def on_train_batch_end(  # type: ignore[override]
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Mapping[str, Any],
        batch: Any,
        batch_idx: int,
    ) -> None:
        """All but those of dev rankings, which have a step of their own."""
        self._log(trainer, dev=False)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._log(trainer, dev=True)

    def _log(self, trainer: pl.Trainer, *, dev: bool) -> None:
        metrics = self.judge.metrics()
        shown = {k: v for k, v in metrics.items() if k.startswith("judge/dev/") is dev}
        self.log_metrics(shown, trainer.global_step)


def memory_rows(groups: Sequence[RolloutGroup], rewards: Rewards) -> list[dict[str, Any]]:
    """One row per rollout, best reward first within its group, failed ones last."""
    rows = []
    for g, group in enumerate(groups):
        assert group.case is not None
        for r in (-rewards.total[g]).argsort(kind="stable"):
            rows.append(
                {
                    "query": group.case.query.text,
                    "memory": group.rollouts[r].text,
                    "reward": float(rewards.total[g, r]),
                    "utility": float(rewards.components["utility"][g, r]),
                    "quality": float(rewards.components["quality"][g, r]),
                    "truncated": group.rollouts[r].truncated,
                }
            )
    return rows
