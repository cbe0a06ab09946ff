"""The callback in real Hydra sweeps of a tiny program, one of them with a job that fails."""

import os
import subprocess
import sys
from pathlib import Path

from memrerank.evaluation.report import read_sweep
from memrerank.evaluation.results import RunResult

PROGRAM = """
from pathlib import Path
import hydra
from hydra.core.hydra_config import HydraConfig
from memrerank.evaluation.results import RunResult

@hydra.main(config_path=".", config_name="config", version_base="1.3")
def main(cfg):
    if cfg.baseline == "broken":
        raise RuntimeError("no such baseline")
    value = {"none": 0.25, "raw": 0.5}[cfg.baseline]
    values = {f"q{i}": value for i in range(5)}
    per_query = {"mrr_at_10": values, "mrr_at_5": values}
    result = RunResult({"baseline": cfg.baseline}, {"mrr_at_10": value}, per_query)
    result.write(Path(HydraConfig.get().runtime.output_dir) / "result.json")

main()
"""
CONFIG = """
baseline: none
hydra:
  run: {dir: out}
  sweep: {dir: sweep, subdir: "${hydra.job.num}"}
  callbacks:
    comparison: {_target_: memrerank.evaluation.report.SweepTable, reference: none}
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "config.yaml").write_text(CONFIG)
    return subprocess.run(
        [sys.executable, "program.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )


def test_a_sweep_ends_with_its_table(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "baseline=none,raw")
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "sweep" / "comparison.md").read_text()
    assert table in done.stdout
    none, raw = table.splitlines()[-2:]
    assert "| 0.2500 [0.2500, 0.2500] |" in none
    assert "| +0.2500 | 0.0625 |" in raw
    assert (tmp_path / "sweep" / "comparison.png").is_file()


def test_a_failed_job_is_listed(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "baseline=raw,broken,none")
    assert done.returncode != 0
    table = (tmp_path / "sweep" / "comparison.md").read_text()
    assert "| +0.2500 | 0.0625 |" in table
    assert table.endswith(
        "Failed jobs (1):\n\n- job 1 (baseline=broken): RuntimeError: no such baseline\n"
    )


def test_a_single_run_writes_no_table(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    assert not list(tmp_path.rglob("comparison.*"))


def test_jobs_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        (tmp_path / str(number) / ".hydra").mkdir(parents=True)
        if number != 1:
            RunResult({"job": str(number)}, {}, {}).write(tmp_path / str(number) / "result.json")
    results, failed = read_sweep(tmp_path)
    assert [result.labels["job"] for result in results] == ["2", "10"]
    assert list(failed) == ["job 1"]
    assert "did not finish" in failed["job 1"]
