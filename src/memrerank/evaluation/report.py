"""The comparison at the end of a sweep, as a Hydra callback:

hydra:
  callbacks:
    comparison:
      _target_: memrerank.evaluation.report.SweepTable
      reference: none
"""

import json
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from memrerank.errors import DataError
from memrerank.evaluation.figure import write_figure
from memrerank.evaluation.results import RESULT_FILE, RunResult
from memrerank.evaluation.table import comparison_table
from memrerank.storage import atomic_path, write_json

FAILURE_FILE = "failure.json"
TABLE_FILE = "comparison.md"
FIGURE_FILE = "comparison.png"


class SweepTable(Callback):
    """Puts the jobs of a sweep side by side in `comparison.md` and `comparison.png`.

    Each job leaves its RunResult as `result.json` in its folder; a job without one is listed as
    failed. The table is rewritten after every job as well, because Hydra ends a sweep with a
    failed job by an exception, without telling its callbacks.
    """

    def __init__(self, reference: str = "none") -> None:
        self.reference = reference

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Notes why a job failed, and brings the table up to date."""
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        if job_return.status == JobStatus.FAILED:
            error = job_return._return_value  # `return_value` would raise it
            job = Path(config.hydra.runtime.output_dir)
            write_json(job / FAILURE_FILE, {"error": f"{type(error).__name__}: {error}"})
        sweep = Path(config.hydra.sweep.dir)
        _write_table(sweep, sweep_report(*read_sweep(sweep), self.reference))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Prints the table, and writes it and its figure."""
        sweep = Path(config.hydra.sweep.dir)
        results, failed = read_sweep(sweep)
        report = sweep_report(results, failed, self.reference)
        _write_table(sweep, report)
        if results:
            write_figure(sweep / FIGURE_FILE, results)
        print(f"\n{report}\nwritten to {sweep / TABLE_FILE}")


def read_sweep(sweep: Path) -> tuple[list[RunResult], dict[str, str]]:
    """The results of a sweep's jobs in the order of the jobs, and why the others have none.

    A job is a folder with a `.hydra` folder in it. The keys of the second part name the job and
    its overrides.
    """
    jobs = sorted(
        (path.parent for path in sweep.glob("*/.hydra")),
        key=lambda job: (not job.name.isdigit(), int(job.name) if job.name.isdigit() else job.name),
    )
    results: list[RunResult] = []
    failed: dict[str, str] = {}
    for job in jobs:
        try:
            results.append(RunResult.read(job / RESULT_FILE))
        except DataError as error:
            failed[_job_name(job)] = _failure(job) or str(error)
    return results, failed


def sweep_report(results: list[RunResult], failed: dict[str, str], reference: str) -> str:
    """The tables, and the list of failed jobs below them; Markdown."""
    parts = [comparison_table(results, reference)] if results else ["No job left a result."]
    if failed:
        lines = [f"- {name}: {' '.join(reason.split())}" for name, reason in failed.items()]
        parts.append("\n".join([f"Failed jobs ({len(failed)}):", "", *lines]))
    return "\n\n".join(parts) + "\n"


def _write_table(sweep: Path, report: str) -> None:
    with atomic_path(sweep / TABLE_FILE) as temporary:
        temporary.write_text(report)


def _job_name(job: Path) -> str:
    overrides = job / ".hydra" / "overrides.yaml"
    if not overrides.is_file():
        return f"job {job.name}"
    return f"job {job.name} ({' '.join(map(str, OmegaConf.load(overrides)))})"


def _failure(job: Path) -> str | None:
    path = job / FAILURE_FILE
    return str(json.loads(path.read_text())["error"]) if path.is_file() else None
