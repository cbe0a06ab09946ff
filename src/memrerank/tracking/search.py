"""Finding the training run whose adapter an evaluation should use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from mlflow.entities import ViewType

from memrerank.errors import DataError
from memrerank.tracking.run import BEST_ADAPTER
from memrerank.tracking.store import absolute_uri, ensure_store

USABLE = {"FINISHED", "KILLED"}  # a RUNNING run may still be at work, a FAILED one had a reason


@dataclass(frozen=True)
class TrainingRun:
    """A run that left an adapter behind."""

    id: str
    name: str
    status: str
    best_adapter: Path
    tags: dict[str, str]


def find_training_run(
    uri: str, experiment: str, tags: Mapping[str, str], run_id: str | None = None
) -> TrainingRun | None:
    """The run that ended last among those with these tags and a best adapter; None without one.

    Only runs that finished, or were stopped with Ctrl-C, are looked at. With `run_id`, that run
    alone is, whatever its status and tags: whoever names it knows why.

    Raises:
        DataError: the adapter of that run is gone.
    """
    experiment_id = ensure_store(uri, experiment)
    for run in _runs_newest_first(MlflowClient(absolute_uri(uri)), experiment_id):
        found = run.data.tags
        if not found.get(BEST_ADAPTER) or run_id not in (None, run.info.run_id):
            continue
        if run_id is None and run.info.status not in USABLE:
            continue
        if run_id is None and any(found.get(name) != value for name, value in tags.items()):
            continue
        folder = Path(found[BEST_ADAPTER])
        if not folder.is_dir():
            raise DataError(
                f"{folder}: the adapter of training run {run.info.run_name} ({run.info.run_id}) "
                "is gone. Restore it, name another one by its path, or delete the run with "
                f"`mlflow runs delete --run-id {run.info.run_id}`"
            )
        return TrainingRun(run.info.run_id, run.info.run_name, run.info.status, folder, found)
    return None


def _runs_newest_first(client: MlflowClient, experiment_id: str) -> Iterator[MlflowRun]:
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id],
            run_view_type=ViewType.ACTIVE_ONLY,
            max_results=100,
            order_by=["attributes.end_time DESC", "attributes.start_time DESC"],
            page_token=token,
        )
        yield from page
        token = page.token
        if not token:
            return
