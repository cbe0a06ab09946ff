"""All that touches MLflow: no other room imports it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from memrerank.tracking.run import Run, end_status, open_run
from memrerank.tracking.search import TrainingRun, find_training_run
from memrerank.tracking.store import DEFAULT_EXPERIMENT, DEFAULT_URI, ensure_store

if TYPE_CHECKING:
    from lightning.pytorch.loggers import MLFlowLogger

__all__ = [
    "DEFAULT_EXPERIMENT",
    "DEFAULT_URI",
    "Run",
    "TrainingRun",
    "end_status",
    "ensure_store",
    "find_training_run",
    "lightning_logger",
    "open_run",
]


def lightning_logger(run: Run, global_step: Callable[[], int] | None = None) -> "MLFlowLogger":
    """A Lightning logger that writes into `run`.

    `global_step` (for example `lambda: trainer.global_step`) gives the step to record under;
    without it that is Lightning's count of batches.
    """
    # Lightning takes seconds to import, which evaluation need not wait for.
    from memrerank.tracking.lightning import RunLogger

    return RunLogger(run, global_step)
