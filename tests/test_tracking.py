"""Runs in a real SQLite store: one store for the whole session, an experiment for each test."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lightning.pytorch as pl
import matplotlib.figure
import pytest
import torch
from mlflow import MlflowClient

from memrerank.errors import ConfigError, DataError, JudgeError
from memrerank.tracking import (
    Run,
    end_status,
    ensure_store,
    find_training_run,
    lightning_logger,
    open_run,
)

TAGS = {"stage": "train", "category": "electronics", "target": "wc"}


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('a store')}/mlflow.db"  # a space in the path


@pytest.fixture
def experiment(request: pytest.FixtureRequest) -> str:
    return request.node.name


@pytest.fixture
def run(uri: str, experiment: str) -> Iterator[Run]:
    with open_run(uri, experiment, "a run", TAGS) as opened:
        yield opened


def _history(run: Run, name: str) -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in run.client.get_metric_history(run.id, name)]


def _artifact(run: Run, path: str) -> str:
    return Path(run.client.download_artifacts(run.id, path)).read_text()


# ---------------------------------------------------------------- the store


def test_processes_that_start_together_share_one_new_store(tmp_path: Path) -> None:
    code = "from memrerank.tracking import ensure_store; print(ensure_store())"  # the default uri
    command = [sys.executable, "-c", code]
    jobs = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, env=os.environ)
        for _ in range(2)
    ]
    ids = {job.communicate(timeout=120)[0] for job in jobs}
    assert [job.returncode for job in jobs] == [0, 0]
    assert len(ids) == 1
    found = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db").get_experiment_by_name("memrerank")
    assert found.artifact_location == (tmp_path / "mlartifacts").as_uri()


def test_a_store_that_cannot_be_opened_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"tracking\.uri=sqlite:////.*file/x/mlflow\.db"):
        ensure_store(f"sqlite:///{tmp_path}/file/x/mlflow.db")
    with pytest.raises(ConfigError, match=r"tracking\.uri=.*mlruns: .*sqlite:///mlflow\.db"):
        ensure_store(str(tmp_path / "mlruns"))


def test_a_deleted_experiment_is_not_written_to(uri: str, experiment: str) -> None:
    MlflowClient(uri).delete_experiment(ensure_store(uri, experiment))
    with pytest.raises(ConfigError, match=f"tracking.experiment={experiment} was deleted"):
        ensure_store(uri, experiment)


# ---------------------------------------------------------------- what a run records


def test_params_are_flat_and_long_ones_become_artifacts(run: Run) -> None:
    long = "x" * 251
    run.log_params({"grpo": {"lr": 1e-4, "prompt": long}, **{f"p{i}": i for i in range(150)}})
    params = run.client.get_run(run.id).data.params
    assert params["grpo.lr"] == "0.0001"
    assert params["p149"] == "149"
    assert params["grpo.prompt"].startswith("params/grpo.prompt.txt, 251 characters, sha256 ")
    assert _artifact(run, "params/grpo.prompt.txt") == long


def test_a_run_does_not_change_its_params(run: Run) -> None:
    run.log_params({"lr": 1})
    run.log_params({"lr": 1, "new": 2})
    with pytest.raises(ConfigError, match="lr"):
        run.log_params({"lr": 3})
    assert run.client.get_run(run.id).data.params == {"lr": "1", "new": "2"}


def test_a_secret_stops_the_run_before_anything_is_written(run: Run) -> None:
    with pytest.raises(ConfigError, match=r"reranker\.api_key holds"):
        run.log_params({"a": 1, "reranker": {"api_key": "0123456789abcdef"}})
    assert run.client.get_run(run.id).data.params == {}
    run.log_text("key: sk-abcdefghijklmnop1234", "config.yaml")
    assert _artifact(run, "config.yaml") == "key: [secret]"


def test_metrics_keep_steps_and_nan(run: Run) -> None:
    run.log_metrics({"reward/mean": 0.5, "dev/accuracy": float("nan")}, step=3)
    run.log_metrics({"test/mrr_at_10": 0.25})
    assert _history(run, "reward/mean") == [(3, 0.5)]
    assert _history(run, "test/mrr_at_10") == [(0, 0.25)]
    step, value = _history(run, "dev/accuracy")[0]
    assert step == 3
    assert value != value  # NaN


@pytest.mark.parametrize("name", ["mrr@10", "P(win)", "größe"])
def test_a_name_that_mlflow_refuses_is_refused_before_anything_is_written(
    run: Run, name: str
) -> None:
    with pytest.raises(ConfigError, match="mrr_at_10 for mrr@10"):
        run.log_metrics({"fine": 1.0, name: 2.0}, step=1)
    assert run.client.get_run(run.id).data.metrics == {}


def test_a_table_grows_and_carries_its_steps(run: Run) -> None:
    run.log_table([{"memory": "likes <b>Sony</b>", "reward": 0.5}], "samples/memories", step=2)
    run.log_table([{"memory": "", "reward": 1.0}], "samples/memories", step=4)
    table = json.loads(_artifact(run, "samples/memories.json"))
    assert table["columns"] == ["step", "memory", "reward"]
    assert table["data"] == [[2, "likes <b>Sony</b>", 0.5], [4, "", 1.0]]


def test_files_folders_and_figures_are_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "config.json").write_text("{}")
    (tmp_path / "run.trec").write_text("q Q0 p 1 9 t\n")
    run.log_files(tmp_path / "adapter", "adapter")
    run.log_files(tmp_path / "run.trec")
    run.log_figure(matplotlib.figure.Figure(), "curve.png")
    assert _artifact(run, "adapter/config.json") == "{}"
    assert _artifact(run, "run.trec") == "q Q0 p 1 9 t\n"
    png = Path(run.client.download_artifacts(run.id, "curve.png")).read_bytes()
    assert png.startswith(b"\x89PNG")


# ---------------------------------------------------------------- how a run ends


def _lightning_exit() -> BaseException:
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)
    except SystemExit as error:
        return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "FINISHED"),
        (SystemExit(0), "FINISHED"),
        (SystemExit(2), "FAILED"),
        (ValueError("x"), "FAILED"),
        (KeyboardInterrupt(), "KILLED"),
        (_lightning_exit(), "KILLED"),
    ],
)
def test_end_status(error: BaseException | None, status: str) -> None:
    assert end_status(error) == status


def test_a_crash_leaves_the_run_failed_with_its_reason(uri: str, experiment: str) -> None:
    with pytest.raises(JudgeError), open_run(uri, experiment, "r", TAGS) as run:
        raise JudgeError("key sk-abcdefghijklmnop1234 refused")
    found = run.client.get_run(run.id)
    assert found.info.status == "FAILED"
    assert found.data.tags["error"] == "JudgeError: key [secret] refused"


def test_a_run_records_its_tags_and_its_commit(run: Run) -> None:
    tags = run.client.get_run(run.id).data.tags
    assert {name: tags[name] for name in TAGS} == TAGS
    assert {"git.commit", "git.dirty"} <= tags.keys()


# ---------------------------------------------------------------- resuming


def test_a_killed_run_is_resumed_in_place_and_repeats_nothing(uri: str, experiment: str) -> None:
    killed = open_run(uri, experiment, "first name", TAGS)  # never closed, as after kill -9
    killed.log_params({"lr": 1, "steps": 10})
    killed.log_text("lr: 1", "config.yaml")
    for step in (1, 2, 3):
        killed.log_metrics({"reward": float(step)}, step)
    killed.log_metrics({"dev": 0.5}, step=2)
    killed.log_metrics({"data/queries": 7.0, "data/pools": 3.0})
    killed.log_table([{"memory": "a"}], "samples/memories", step=2)  # killed before that of step 3

    with open_run(uri, experiment, "second name", TAGS, run_id=killed.id) as resumed:
        assert resumed.client.get_run(resumed.id).info.status == "RUNNING"
        resumed.log_params({"lr": 2, "steps": 10, "extra": 1})
        resumed.log_text("lr: 2", "config.yaml")
        for step in (2, 3, 4):  # from the checkpoint of step 1
            resumed.log_metrics({"reward": float(-step), "dev": 0.25}, step)
            resumed.log_table([{"memory": "b"}], "samples/memories", step)
            resumed.log_table([{"word": "c"}], "words", step)
        resumed.log_metrics({"final": 1.0, "data/queries": 7.0, "data/pools": 4.0})

    assert resumed.id == killed.id
    assert _history(resumed, "reward") == [(1, 1.0), (2, 2.0), (3, 3.0), (4, -4.0)]
    assert _history(resumed, "dev") == [(2, 0.5), (3, 0.25), (4, 0.25)]
    assert _history(resumed, "final") == [(0, 1.0)]
    assert _history(resumed, "data/queries") == [(0, 7.0)]
    assert _history(resumed, "data/pools") == [(0, 3.0), (0, 4.0)]  # what changed is recorded
    memories, words = (
        json.loads(_artifact(resumed, f"{name}.json"))["data"]
        for name in ("samples/memories", "words")
    )
    assert memories == [[2, "a"], [3, "b"], [4, "b"]]
    assert words == [[2, "c"], [3, "c"], [4, "c"]]
    assert _artifact(resumed, "config.yaml") == "lr: 1"
    assert _artifact(resumed, "config.resume-1.yaml") == "lr: 2"
    found = resumed.client.get_run(resumed.id)
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "first name"
    assert found.data.params == {"lr": "1", "steps": "10", "extra": "1"}
    note = json.loads(found.data.tags["resume.1"])
    assert note == {"metrics_recorded_to": 3, "changed": {"lr": ["1", "2"]}}
    assert len(resumed.client.search_runs([found.info.experiment_id])) == 1


def test_each_resumption_has_a_note_of_its_own(uri: str, experiment: str) -> None:
    first = open_run(uri, experiment, "r", TAGS)
    open_run(uri, experiment, "r", TAGS, run_id=first.id)
    changed = {**TAGS, "target": "w"}
    with open_run(uri, experiment, "r", changed, run_id=first.id) as third:
        third.log_params({})
    tags = third.client.get_run(first.id).data.tags
    assert json.loads(tags["resume.1"])["changed"] == {}
    assert json.loads(tags["resume.2"])["changed"] == {"target": ["wc", "w"]}
    assert tags["target"] == "wc"


def test_a_long_note_goes_to_an_artifact(uri: str, experiment: str) -> None:
    first = open_run(uri, experiment, "r", TAGS)
    first.log_params({f"p{i}": "a" * 100 for i in range(40)})
    with open_run(uri, experiment, "r", TAGS, run_id=first.id) as second:
        second.log_params({f"p{i}": "b" * 100 for i in range(40)})
    tag = second.client.get_run(first.id).data.tags["resume.1"]
    assert tag == "see the artifact resume/1.json"
    changed = json.loads(_artifact(second, "resume/1.json"))["changed"]
    assert changed["p39"] == ["a" * 100, "b" * 100]


def test_resuming_an_unknown_run_is_an_error(uri: str, experiment: str) -> None:
    with pytest.raises(ConfigError, match="no run nowhere to resume"):
        open_run(uri, experiment, "r", TAGS, run_id="nowhere")


# ---------------------------------------------------------------- Lightning


class _Linear(pl.LightningModule):
    """Two optimizer steps a batch: Lightning's count of batches is half of `global_step`."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.save_hyperparameters({"would": "clash"})
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        optimizer = self.optimizers()
        for _ in range(2):
            optimizer.zero_grad()
            self.manual_backward(self.layer(batch).sum())
            optimizer.step()
        self.log("reward", float(batch_idx))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_lightning_writes_into_the_open_run_under_optimizer_steps(run: Run, tmp_path: Path) -> None:
    trainer = pl.Trainer(
        max_epochs=1,
        logger=lightning_logger(run, lambda: trainer.global_step),
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        accelerator="cpu",
    )
    trainer.fit(_Linear(), torch.utils.data.DataLoader(torch.ones(3, 1)))
    assert _history(run, "reward") == [(2, 0.0), (4, 1.0), (6, 2.0)]
    found = run.client.get_run(run.id)
    assert found.info.status == "RUNNING"  # the fit is over, the run is not
    assert found.data.params == {}
    assert len(run.client.search_runs([found.info.experiment_id])) == 1


# ---------------------------------------------------------------- finding a training run


def _train(
    uri: str, experiment: str, adapter: Path | None, status: str, tags: dict[str, str] = TAGS
) -> str:
    run = open_run(uri, experiment, "r", tags)
    if adapter is not None:
        adapter.mkdir(exist_ok=True)
        run.set_best_adapter(adapter)
    if status != "RUNNING":
        run.close(status)
    return run.id


def test_the_newest_usable_run_with_the_same_tags_is_found(
    uri: str, experiment: str, tmp_path: Path
) -> None:
    assert find_training_run(uri, experiment, TAGS) is None
    _train(uri, experiment, tmp_path / "old", "FINISHED")
    wanted = _train(uri, experiment, tmp_path / "wanted", "KILLED")
    _train(uri, experiment, tmp_path / "other", "FINISHED", {**TAGS, "target": "w"})
    _train(uri, experiment, None, "FINISHED")
    _train(uri, experiment, tmp_path / "failed", "FAILED")
    _train(uri, experiment, tmp_path / "running", "RUNNING")
    found = find_training_run(uri, experiment, TAGS)
    assert found is not None
    assert (found.id, found.status, found.best_adapter) == (wanted, "KILLED", tmp_path / "wanted")
    assert found.tags["category"] == "electronics"
    assert find_training_run(uri, experiment, {**TAGS, "category": "beauty"}) is None


def test_a_missing_adapter_is_an_error_and_not_an_older_run(
    uri: str, experiment: str, tmp_path: Path
) -> None:
    _train(uri, experiment, tmp_path / "old", "FINISHED")
    newest = _train(uri, experiment, tmp_path / "gone", "FINISHED")
    (tmp_path / "gone").rmdir()
    with pytest.raises(DataError, match=f"gone: the adapter of training run r .{newest}"):
        find_training_run(uri, experiment, TAGS)
