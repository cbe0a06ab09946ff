"""Lightning's logger on a run that is already open."""

from collections.abc import Callable, Mapping
from typing import Any

from lightning.pytorch.loggers import MLFlowLogger

from memrerank.tracking.run import Run


class RunLogger(MLFlowLogger):
    """Lightning's MLflow logger on a run that is already open and that `Run` alone closes."""

    def __init__(self, run: Run, global_step: Callable[[], int] | None) -> None:
        super().__init__(tracking_uri=run.uri, run_id=run.id)
        self._run = run
        self._global_step = global_step

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Records under the optimizer step; Lightning itself passes a count of batches."""
        self._run.log_metrics(metrics, self._global_step() if self._global_step else step)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: `Run.log_params` has recorded the whole config."""

    def finalize(self, status: str = "success") -> None:
        """Nothing: a fit that ends is not yet the end of the run."""
