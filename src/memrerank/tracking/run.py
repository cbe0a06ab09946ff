"""One MLflow run, opened or resumed, and what it records.

How a run ends: `FINISHED`, `KILLED` after Ctrl-C, `FAILED` after any other error. A process that is
killed outright leaves its run `RUNNING`; resuming (`open_run` with its `run_id`) goes on in the
same run and ends it properly.

What resuming records: a step whose metrics are in the run already is not recorded a second time.
A resumed run repeats the steps since its checkpoint with the same derived seeds, so the first
record stands, and every metric keeps one value per step. Params never change; what differs on
resuming is in the tag `resume.N`, with the step up to which metrics were recorded before.
"""

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.entities import Run as MlflowRun
from mlflow.environment_variables import MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR
from mlflow.exceptions import MlflowException

from memrerank.errors import ConfigError
from memrerank.provenance import flatten, git_tags, redact, refuse_secrets
from memrerank.tracking.store import absolute_uri, ensure_store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST_ADAPTER = "best_adapter"  # the tag that a training run sets once it has an adapter to use
PARAM_LIMIT = 250  # characters; longer values become artifacts under params/
TAG_LIMIT = 5000  # characters
BATCH = 100  # MLflow's cap on params in one call
METRIC_NAME = re.compile(r"[\w./ -]+", re.ASCII)


class Run:
    """An open MLflow run; as a context manager it closes itself with the status it has earned.

    `id` is MLflow's run id; `resumption` is 0, or how many times the run has been resumed.
    """

    def __init__(self, client: MlflowClient, uri: str, run: MlflowRun, resumption: int = 0) -> None:
        self.client = client
        self.uri = uri
        self.id: str = run.info.run_id
        self.resumption = resumption
        self._closed = False
        self._recorded = _recorded_steps(client, run) if resumption else {}
        self._results = run.data.metrics if resumption else {}
        self._recorded_to = max(self._recorded.values(), default=-1)
        self._table_steps: dict[str, int] = {}  # of tables, as far as they have been asked for
        self._changed: dict[str, Any] = {}  # what resuming changed: name -> [before, now]

    def log_params(self, settings: Mapping[Any, Any]) -> None:
        """Records nested settings as flat params; long values go to `params/<name>.txt`.

        Raises:
            ConfigError: a setting holds a secret, or differs from what this run already says of
                it (on a resumed run the difference is recorded in `resume.N` instead).
        """
        refuse_secrets(settings)
        flat = flatten(settings)
        values = {name: _param_value(name, text) for name, text in flat.items()}
        known = self.client.get_run(self.id).data.params
        changed = {n: [known[n], v] for n, v in values.items() if known.get(n, v) != v}
        if changed and not self.resumption:
            raise ConfigError(f"run {self.id} already has other values for: {sorted(changed)}")
        new = [Param(name, value) for name, value in values.items() if name not in known]
        for start in range(0, len(new), BATCH):
            self.client.log_batch(self.id, params=new[start : start + BATCH])
        for param in new:
            if len(flat[param.key]) > PARAM_LIMIT:
                self.log_text(flat[param.key], f"params/{param.key}.txt")
        if changed:
            self._note_resumption(changed)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Records metrics at a step; without one, as results of the run as a whole.

        Steps that the run had recorded before it was resumed are left as they are. NaN is kept.

        Raises:
            ConfigError: MLflow would refuse a name.
        """
        now = int(time.time() * 1000)
        for name in metrics:
            if not METRIC_NAME.fullmatch(name):
                raise ConfigError(
                    f"metric {name!r}: MLflow takes letters, digits, spaces and _ - . / in a "
                    "metric's name; write mrr_at_10 for mrr@10"
                )
        fresh = [
            Metric(name, float(value), now, step or 0)
            for name, value in metrics.items()
            if not self._is_recorded(name, value, step)
        ]
        self.client.log_batch(self.id, metrics=fresh)

    def _is_recorded(self, name: str, value: float, step: int | None) -> bool:
        """Whether the run held this before it was resumed: a step, or an equal result."""
        if step is None:
            return self._results.get(name) == value
        return step <= self._recorded.get(name, -1)

    def log_table(self, rows: Sequence[Mapping[str, Any]], name: str, step: int) -> None:
        """Appends rows, each with its step, to the table `<name>.json`, which MLflow shows.

        All rows of a table have the same columns. Like metrics, a step is recorded once.
        """
        if not rows or step <= self._table_step(name):
            return
        columns = {column: [row[column] for row in rows] for column in rows[0]}
        self.client.log_table(self.id, {"step": [step] * len(rows), **columns}, f"{name}.json")

    def _table_step(self, name: str) -> int:
        """The last step that the table held before the run was resumed; -1 without any."""
        if self.resumption and name not in self._table_steps:
            held = {file.path for file in self.client.list_artifacts(self.id, _folder(name))}
            steps = [-1]
            if f"{name}.json" in held:
                file = Path(self.client.download_artifacts(self.id, f"{name}.json"))
                table = json.loads(file.read_text())
                steps += [row[table["columns"].index("step")] for row in table["data"]]
            self._table_steps[name] = max(steps)
        return self._table_steps.get(name, -1)

    def log_text(self, text: str, path: str) -> None:
        """Records a text (a config, a prompt) as the artifact `path`, secrets blanked out.

        On a resumed run the first text stays, and this one is kept beside it.
        """
        target = Path(path)
        if self.resumption:
            path = str(target.with_name(f"{target.stem}.resume-{self.resumption}{target.suffix}"))
        self.client.log_text(self.id, redact(text), path)

    def log_files(self, path: Path, folder: str | None = None) -> None:
        """Records a file, or all files of a folder, as artifacts under `folder`."""
        if path.is_dir():
            self.client.log_artifacts(self.id, str(path), folder)
        else:
            self.client.log_artifact(self.id, str(path), folder)

    def log_figure(self, figure: "Figure", path: str) -> None:
        """Records a matplotlib figure as the artifact `path` (png, svg or html)."""
        self.client.log_figure(self.id, figure, path)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Sets tags, over any that they replace."""
        refuse_secrets(tags)
        for name, value in tags.items():
            self.client.set_tag(self.id, name, value)

    def set_best_adapter(self, folder: Path) -> None:
        """Says where the adapter lies that evaluation should use (`find_training_run`)."""
        self.set_tags({BEST_ADAPTER: str(folder.absolute())})

    def close(self, status: str) -> None:
        """Ends the run as `FINISHED`, `FAILED` or `KILLED`; only the first call counts."""
        if not self._closed:
            self.client.set_terminated(self.id, status)
            self._closed = True

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        status = end_status(error)
        if status == "FAILED" and not self._closed:
            self.client.set_tag(
                self.id, "error", redact(f"{kind and kind.__name__}: {error}")[:500]
            )
        self.close(status)

    def _note_resumption(self, changed: Mapping[str, Any]) -> None:
        self._changed.update(changed)
        note = {"metrics_recorded_to": self._recorded_to, "changed": self._changed}
        text = json.dumps(note, ensure_ascii=False)
        if len(text) > TAG_LIMIT:
            path = f"resume/{self.resumption}.json"
            self.client.log_text(self.id, text, path)
            text = f"see the artifact {path}"
        self.client.set_tag(self.id, f"resume.{self.resumption}", text)


def open_run(
    uri: str,
    experiment: str,
    run_name: str,
    tags: Mapping[str, str],
    run_id: str | None = None,
) -> Run:
    """Starts a run, or goes on in the run `run_id` (whose own name and tags stay as they are).

    The git commit of the working directory is recorded with it.

    Raises:
        ConfigError: the store cannot be opened, or it has no run `run_id`.
    """
    refuse_secrets(tags)
    MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR.set(False)  # would break into the training's own bar
    experiment_id = ensure_store(uri, experiment)
    client = MlflowClient(absolute_uri(uri))
    tags = {**tags, **git_tags(Path.cwd())}
    if run_id is None:
        created = client.create_run(experiment_id, tags=tags, run_name=run_name)
        return Run(client, absolute_uri(uri), created)
    try:
        found = client.get_run(run_id)
    except MlflowException as error:
        raise ConfigError(f"no run {run_id} to resume in {redact(uri)}: {error}") from error
    client.update_run(run_id, status="RUNNING")
    resumption = 1 + sum(tag.startswith("resume.") for tag in found.data.tags)
    run = Run(client, absolute_uri(uri), found, resumption)
    old = found.data.tags
    run._note_resumption({n: [old.get(n), v] for n, v in tags.items() if old.get(n) != v})
    return run


def end_status(error: BaseException | None) -> str:
    """The status that a run has earned when its block ends with `error`.

    Lightning turns Ctrl-C into `SystemExit`, so what an exception arose from counts too.
    """
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "FINISHED"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return "KILLED"
        cause = cause.__cause__ or cause.__context__
    return "FAILED"


def _param_value(name: str, text: str) -> str:
    if len(text) <= PARAM_LIMIT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"params/{name}.txt, {len(text)} characters, sha256 {digest}"


def _folder(path: str) -> str | None:
    return path.rpartition("/")[0] or None


def _recorded_steps(client: MlflowClient, run: MlflowRun) -> dict[str, int]:
    """The last step of each metric of a run."""
    histories = {n: client.get_metric_history(run.info.run_id, n) for n in run.data.metrics}
    return {name: max(metric.step for metric in history) for name, history in histories.items()}
