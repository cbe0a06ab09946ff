"""Training end to end, on the smallest demo store with a tiny model."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_jobs import Workshop

from memrerank.errors import ConfigError, DataError
from memrerank.grpo.module import GRPOModule
from memrerank.memory.extractor import read_card
from memrerank.schema import Query
from memrerank.train import TrainingResult, choose_queries, train

STEPS = 4
FOUR = f"trainer.max_steps={STEPS}"


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.getbasetemp() / "workshop")


@pytest.fixture(scope="session")
def undisturbed(workshop: Workshop) -> TrainingResult:
    return workshop.train("undisturbed/run", FOUR, experiment="undisturbed")


def stop_at(
    monkeypatch: pytest.MonkeyPatch, step: int, error: BaseException, hook: str = "training_step"
) -> None:
    """Raises `error` in place of the hook's first call after `step` optimizer steps."""
    original = getattr(GRPOModule, hook)

    def stopping(self: GRPOModule, batch: Any, batch_idx: int) -> Any:
        if self.global_step == step:
            raise error
        return original(self, batch, batch_idx)

    monkeypatch.setattr(GRPOModule, hook, stopping)


def adapter_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "adapter_model.safetensors")


def same_weights(first: Path, second: Path) -> bool:
    one, two = adapter_weights(first), adapter_weights(second)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


# ---------------------------------------------------------------- what a run leaves behind


def test_a_training_leaves_an_adapter_a_checkpoint_and_its_metrics(
    workshop: Workshop, undisturbed: TrainingResult
) -> None:
    folder = workshop.folder / "undisturbed/run"
    assert undisturbed.steps == STEPS
    assert undisturbed.adapter == folder / "adapter"
    card = read_card(folder / "adapter")
    assert (card.category, card.target) == ("Electronics", "wc")
    assert (card.step, card.dev_mrr_at_10) == (
        undisturbed.best_step,
        undisturbed.best_dev_mrr_at_10,
    )
    names = {path.name for path in (folder / "checkpoints").iterdir()}
    assert names == {"last.ckpt", f"step={STEPS}.ckpt"}
    saved = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)
    assert saved["global_step"] == STEPS
    assert all("lora_" in name for name in saved["state_dict"])


def test_metrics_are_recorded_under_optimizer_steps(
    workshop: Workshop, undisturbed: TrainingResult
) -> None:
    history = workshop.history(undisturbed.run_id)
    assert [step for step, _ in history["reward"]] == [1, 2, 3, 4]
    assert [step for step, _ in history["dev/mrr_at_10"]] == [0, 2, 4]
    assert history["data/train/bm25/instances"][0][1] > 0
    assert history["failed_rewards"] == [(step, 0.0) for step in (1, 2, 3, 4)]
    # The reward is the judge's probability of the positive plus a tenth of the quality.
    for (_, reward), (_, utility), (_, quality) in zip(
        *(history[name] for name in ("reward", "reward/utility", "reward/quality")), strict=True
    ):
        assert reward == pytest.approx(utility + 0.1 * quality, abs=1e-5)
        assert 0 < utility < 1
    dev = dict(history["dev/mrr_at_10"])
    assert undisturbed.best_dev_mrr_at_10 == pytest.approx(max(dev[2], dev[4]), abs=1e-6)
    assert (dev[2], undisturbed.best_step) == (max(dev.values()), 2)  # what resuming relies on


def test_the_record_says_what_was_run(workshop: Workshop, undisturbed: TrainingResult) -> None:
    (run,) = workshop.runs("undisturbed")
    assert run.info.run_id == undisturbed.run_id
    assert run.info.status == "FINISHED"
    expected = {"kind": "train", "category": "electronics", "target": "wc", "seed": "3"}
    assert expected.items() <= run.data.tags.items()
    assert run.data.tags["best_adapter"] == str(undisturbed.adapter)
    assert run.data.params["grpo.rollouts"] == "3"
    assert run.data.params["data.name"] == "demo"
    artifacts = {file.path for file in workshop.client.list_artifacts(run.info.run_id)}
    assert {"config.yaml", "prompts", "memories.json"} <= artifacts
    table = workshop.client.download_artifacts(run.info.run_id, "memories.json")
    rows = json.loads(Path(table).read_text())
    assert [row[rows["columns"].index("step")] for row in rows["data"]] == [
        step for step in (1, 2, 4) for _ in range(3)
    ]


# ---------------------------------------------------------------- the same again


def test_the_same_seed_gives_the_same_metrics_and_another_does_not(
    workshop: Workshop, undisturbed: TrainingResult
) -> None:
    again = workshop.train("again/run", FOUR, experiment="again")
    assert workshop.history(again.run_id) == workshop.history(undisturbed.run_id)
    assert undisturbed.adapter is not None
    assert again.adapter is not None
    assert same_weights(again.adapter, undisturbed.adapter)
    other = workshop.train("again/other", FOUR, "seed=1", experiment="again")
    history, base = (workshop.history(run.run_id) for run in (other, undisturbed))
    assert history["reward"] != base["reward"]
    assert (
        history["data/queries_kept"] == base["data/queries_kept"]
    )  # the benchmark has its own seed


def test_a_used_folder_is_not_gone_on_from_unless_asked(
    workshop: Workshop, undisturbed: TrainingResult
) -> None:
    for steps in (2, STEPS):
        result = workshop.train("twice/run", f"trainer.max_steps={steps}", experiment="twice")
        assert result.steps == steps
    assert (
        workshop.history(result.run_id)["reward"]
        == (workshop.history(undisturbed.run_id)["reward"])
    )
    assert len(workshop.runs("twice")) == 2


# ---------------------------------------------------------------- stopped and resumed


@pytest.mark.parametrize(
    ("hook", "step"),
    [
        ("training_step", 1),
        ("training_step", 2),  # after dev was ranked, and after the checkpoint before that
        ("validation_step", 4),  # in the last ranking, when all steps are done
    ],
)
def test_a_killed_training_goes_on_as_if_it_had_not_been(
    workshop: Workshop, undisturbed: TrainingResult, hook: str, step: int
) -> None:
    name = f"killed-{hook}-{step}"
    with pytest.MonkeyPatch.context() as patch:
        # What kill -9 leaves: a RUNNING run, and the checkpoints of the steps before.
        stop_at(patch, step, RuntimeError("killed"), hook)
        patch.setattr("memrerank.tracking.run.Run.close", lambda run, status: None)
        patch.setattr("memrerank.grpo.callbacks.InterruptedCheckpoint.on_exception", _nothing)
        with pytest.raises(RuntimeError, match="killed"):
            workshop.train(f"{name}/run", FOUR, experiment=name)
    (killed,) = workshop.runs(name)
    assert killed.info.status == "RUNNING"
    assert not (workshop.folder / name / "run/checkpoints/interrupted.ckpt").exists()

    resumed = workshop.train(f"{name}/later", FOUR, "ckpt_path=last", experiment=name)

    assert resumed.run_id == killed.info.run_id
    assert resumed.steps == STEPS
    (run,) = workshop.runs(name)
    assert run.info.status == "FINISHED"
    assert json.loads(run.data.tags["resume.1"])["changed"]["ckpt_path"] == ["null", "last"]
    assert_same_metrics(workshop, resumed, undisturbed)
    assert (resumed.best_step, resumed.best_dev_mrr_at_10) == (
        undisturbed.best_step,
        undisturbed.best_dev_mrr_at_10,
    )
    assert resumed.adapter == workshop.folder / name / "run/adapter"
    assert undisturbed.adapter is not None
    assert same_weights(resumed.adapter, undisturbed.adapter)
    assert not (workshop.folder / name / "later").exists()


def _nothing(*_: Any) -> None:
    """In place of a hook that a killed process does not reach."""


def assert_same_metrics(workshop: Workshop, one: TrainingResult, other: TrainingResult) -> None:
    """Up to rounding: the judge encodes only what it has not seen, so other batches after a stop.

    Lightning's `epoch` is left out; it is recorded with both training and validation.
    """
    found, expected = (workshop.history(result.run_id) for result in (one, other))
    assert found.keys() == expected.keys()
    for name in found.keys() - {"epoch"}:
        assert [step for step, _ in found[name]] == [step for step, _ in expected[name]], name
        values, wanted = ([value for _, value in h[name]] for h in (found, expected))
        assert values == pytest.approx(wanted, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize(("hook", "step"), [("training_step", 1), ("validation_step", 2)])
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(
    workshop: Workshop, undisturbed: TrainingResult, hook: str, step: int
) -> None:
    name = f"stopped-{hook}-{step}"
    sparse = "checkpoint.every_steps=100"  # nothing but the interrupted one
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, step, KeyboardInterrupt(), hook)
        with pytest.raises(SystemExit):
            workshop.train(f"{name}/run", FOUR, sparse, experiment=name)
    (run,) = workshop.runs(name)
    assert run.info.status == "KILLED"
    checkpoint = workshop.folder / name / "run/checkpoints/interrupted.ckpt"
    assert list(checkpoint.parent.iterdir()) == [checkpoint]
    assert torch.load(checkpoint, weights_only=True)["global_step"] == step
    resumed = workshop.train(
        f"{name}/later", FOUR, sparse, f"ckpt_path='{checkpoint}'", experiment=name
    )
    assert resumed.run_id == run.info.run_id
    assert_same_metrics(workshop, resumed, undisturbed)
    assert resumed.best_step == undisturbed.best_step
    assert not checkpoint.exists()


def test_a_failed_first_step_leaves_no_checkpoint(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, 0, ValueError("at once"))
    with pytest.raises(ValueError, match="at once"):
        workshop.train("first/run", experiment="first")
    assert not list((workshop.folder / "first").rglob("*.ckpt"))
    assert workshop.runs("first")[0].info.status == "FAILED"


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("target=w", "target: it has wc, this run has w;"),
        ("extractor.model=/other/model", "extractor.model: it has .*, this run has /other/model"),
        ("extractor.prompt.max_purchases=3", "extractor.prompt: it has .*, this run has"),
        ("category=beauty", "trains on Electronics; choose that category"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    workshop: Workshop, undisturbed: TrainingResult, override: str, told: str
) -> None:
    checkpoint = workshop.folder / "undisturbed/run/checkpoints/last.ckpt"
    with pytest.raises(ConfigError, match=told):
        workshop.train("x/run", override, f"ckpt_path={checkpoint}")
    assert not (workshop.folder / "x").exists()


def test_a_checkpoint_that_is_not_there_is_named(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ckpt_path=/no/such\.ckpt: no such file.*`last`"):
        workshop.train("x/run", "ckpt_path=/no/such.ckpt")
    with pytest.raises(ConfigError, match=r"ckpt_path=last: no training under .*/empty"):
        workshop.train("empty/run", "ckpt_path=last")
    (tmp_path / "lone.ckpt").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"run\.json is missing: ckpt_path must lie in"):
        workshop.train("x/run", f"ckpt_path={tmp_path}/lone.ckpt")


def test_a_held_out_retriever_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    cfg = Workshop(tmp_path).config("retrieval.train=[bm25,linq]")
    made = set(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match="linq is held out"):
        train(cfg, tmp_path / "run")
    assert set(tmp_path.rglob("*")) == made


def test_greedy_decoding_cannot_be_trained(workshop: Workshop) -> None:
    with pytest.raises(ConfigError, match=r"extractor\.sampling\.temperature=0"):
        workshop.train("greedy/run", "extractor.sampling.temperature=0", experiment="greedy")
    assert workshop.runs("greedy")[0].info.status == "FAILED"


def test_a_category_without_queries_says_what_was_found(workshop: Workshop) -> None:
    with pytest.raises(DataError, match="Books"):
        workshop.train("books/run", "category=books")


# ---------------------------------------------------------------- small parts


def queries(count: int) -> list[Query]:
    return [Query(f"q{i}", "x", "u", "p", "Electronics", 9) for i in range(count)]


def test_queries_are_chosen_from_a_seed_and_kept_in_order() -> None:
    everything = queries(20)
    chosen = choose_queries(everything, 5, seed=0)
    assert len(chosen) == 5
    assert list(chosen) == [query for query in everything if query in chosen]
    assert choose_queries(everything, 5, seed=0) == chosen
    assert choose_queries(everything, 5, seed=1) != chosen
    assert choose_queries(everything, 50, seed=0) == tuple(everything)
    assert choose_queries(everything, None, seed=0) == tuple(everything)


def test_inner_epochs_count_as_steps(workshop: Workshop) -> None:
    result = workshop.train("inner/run", FOUR, "grpo.inner_epochs=2", experiment="inner")
    history = workshop.history(result.run_id)
    assert result.steps == STEPS
    assert [step for step, _ in history["reward"]] == [2, 4]  # one record a batch
    assert [step for step, _ in history["dev/mrr_at_10"]] == [0, 2, 4]
