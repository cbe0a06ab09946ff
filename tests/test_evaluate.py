"""Evaluation end to end, on the smallest demo store with a tiny model."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from small_jobs import TIMED, Workshop

from memrerank.baselines import oracle
from memrerank.errors import ConfigError, DataError
from memrerank.evaluation.report import RunResult
from memrerank.memory.extractor import read_card
from memrerank.train import TrainingResult

TRAINED = "evaluate-trained"  # the MLflow experiment with one training run


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.getbasetemp() / "workshop")


@pytest.fixture(scope="session")
def training(workshop: Workshop) -> TrainingResult:
    return workshop.train(f"{TRAINED}/run", experiment=TRAINED)


@pytest.fixture(scope="session")
def results(workshop: Workshop, training: TrainingResult) -> dict[str, RunResult]:
    """One evaluation by each source, after the training."""
    names = ("none", "raw", "untrained", "memrerank")
    return {
        name: workshop.evaluate(f"{TRAINED}/{name}", f"baseline={name}", experiment=TRAINED)
        for name in names
    }


def lines(workshop: Workshop, name: str, file: str) -> list[str]:
    return (workshop.folder / TRAINED / name / file).read_text().splitlines()


def memories(workshop: Workshop, name: str) -> dict[str, str]:
    rows = [json.loads(line) for line in lines(workshop, name, "queries.jsonl")]
    return {row["query_id"]: f"{row['within']}|{row['cross']}" for row in rows}


# ---------------------------------------------------------------- what an evaluation leaves behind


@pytest.mark.parametrize("name", ["none", "raw", "memrerank"])
def test_the_trec_files_give_the_reported_mrr(
    workshop: Workshop, results: dict[str, RunResult], name: str
) -> None:
    positive = {}
    for line in lines(workshop, name, "qrels.trec"):
        query_id, _, product_id, relevance = line.split()
        assert relevance == "1"
        positive[query_id] = product_id
    ranked = defaultdict(list)
    for line in lines(workshop, name, "rankings.trec"):
        query_id, _, product_id, rank, _, tag = line.split()
        ranked[query_id].append((int(rank), product_id))
        assert tag == name
    assert len(positive) == 4
    for cutoff in (5, 10):
        reciprocal = dict.fromkeys(positive, 0.0)
        for query_id, rows in ranked.items():
            order = [product_id for _, product_id in sorted(rows)]
            assert len(order) == len(set(order)) == 100  # the whole pool
            if positive[query_id] in order[:cutoff]:
                reciprocal[query_id] = 1 / (1 + order.index(positive[query_id]))
        reported = results[name]
        measure = f"mrr_at_{cutoff}"
        assert reported.metrics[measure] == pytest.approx(sum(reciprocal.values()) / 4)
        assert reported.per_query[measure] == pytest.approx(reciprocal)


@pytest.mark.parametrize("name", ["none", "memrerank"])
def test_the_result_file_and_mlflow_hold_the_result(
    workshop: Workshop, results: dict[str, RunResult], name: str
) -> None:
    result = results[name]
    assert RunResult.read(workshop.folder / TRAINED / name / "result.json") == result
    assert result.labels["baseline"] == name
    (run,) = (run for run in workshop.runs(TRAINED) if run.data.tags.get("baseline") == name)
    assert run.info.status == "FINISHED"
    assert run.data.metrics == pytest.approx(result.metrics)
    assert (run.data.tags["kind"], run.data.tags["split"]) == ("evaluate", "test")
    files = {file.path for file in workshop.client.list_artifacts(run.info.run_id)}
    assert {"result.json", "rankings.trec", "qrels.trec", "queries.jsonl", "config.yaml"} <= files


def test_every_evaluation_ranks_the_same_queries_at_the_same_cost(
    results: dict[str, RunResult],
) -> None:
    for result in results.values():
        assert result.metrics["queries"] == 4
        # 100 products in sets of five: 25 sets, and three more for each of nine places.
        assert result.metrics["calls_per_query"] == 25 + 9 * 3
        assert result.metrics["rounds_per_query"] == 3 + 9 * 3
        assert result.metrics["invalid_rate"] == 0
        assert result.per_query["mrr_at_10"].keys() == results["none"].per_query["mrr_at_10"].keys()


# ---------------------------------------------------------------- memory sources


def test_no_memory_is_empty_and_the_raw_history_is_not(
    workshop: Workshop, results: dict[str, RunResult]
) -> None:
    assert set(memories(workshop, "none").values()) == {"|"}
    assert results["none"].metrics["empty_memories"] == 1.0
    assert results["none"].metrics["memory_words"] == 0.0
    assert results["raw"].metrics["empty_memories"] == 0.0
    assert results["raw"].metrics["memory_words"] > 100


def test_the_trained_adapter_writes_other_memories_than_the_base_model(
    workshop: Workshop, results: dict[str, RunResult]
) -> None:
    before, after = memories(workshop, "untrained"), memories(workshop, "memrerank")
    assert before.keys() == after.keys()
    assert before != after
    assert all(text.startswith("Likes") for text in after.values())  # the answer's prefix


def test_the_newest_training_run_is_used_and_named(
    workshop: Workshop, training: TrainingResult, results: dict[str, RunResult]
) -> None:
    (run,) = (run for run in workshop.runs(TRAINED) if run.data.tags.get("baseline") == "memrerank")
    assert run.data.tags["training_run"] == training.run_id
    assert run.data.tags["adapter"] == str(training.adapter)
    assert results["memrerank"].labels["baseline"] == "memrerank"


@pytest.mark.parametrize("way", ["adapter", "run_id"])
def test_an_adapter_can_be_named(
    workshop: Workshop, training: TrainingResult, results: dict[str, RunResult], way: str
) -> None:
    value = {"adapter": training.adapter, "run_id": training.run_id}[way]
    name = f"by-{way}"
    workshop.evaluate(
        f"{TRAINED}/{name}", "baseline=memrerank", f"baseline.{way}={value}", experiment=TRAINED
    )
    assert memories(workshop, name) == memories(workshop, "memrerank")


def test_the_oracle_knows_what_the_demo_hides(workshop: Workshop) -> None:
    result = workshop.evaluate("oracle/run", "baseline=oracle", experiment="oracle")
    assert result.metrics["empty_memories"] == 0.0
    cfg = workshop.config()
    cfg.data.name, cfg.data.layout = "other", "amazon"
    with pytest.raises(ConfigError, match="data=other: only data=demo knows"):
        oracle(cfg)


# ---------------------------------------------------------------- the same again


def test_the_same_seed_gives_the_same_ranking_and_another_does_not(
    workshop: Workshop, results: dict[str, RunResult]
) -> None:
    again = workshop.evaluate(f"{TRAINED}/again", "baseline=memrerank", experiment=TRAINED)
    for file in ("rankings.trec", "queries.jsonl"):
        assert lines(workshop, "again", file) == lines(workshop, "memrerank", file)
    for name, value in results["memrerank"].metrics.items():
        if TIMED not in name:
            assert again.metrics[name] == value, name
    workshop.evaluate(f"{TRAINED}/seed", "baseline=none", "seed=9", experiment=TRAINED)
    assert lines(workshop, "seed", "qrels.trec") == lines(workshop, "none", "qrels.trec")
    assert lines(workshop, "seed", "rankings.trec") != lines(workshop, "none", "rankings.trec")


# ---------------------------------------------------------------- what is refused


def test_without_a_training_run_one_is_asked_for(workshop: Workshop) -> None:
    message = (
        r"baseline=memrerank: no trained extractor in sqlite:.*Train one first: python train\.py "
        r"category=electronics target=wc, or give baseline\.adapter=<folder>"
    )
    with pytest.raises(ConfigError, match=message):
        workshop.evaluate("x/run", "baseline=memrerank", experiment="nothing-trained")
    assert workshop.runs("nothing-trained") == []


@pytest.mark.parametrize("choice", ["target=w", "category=beauty"])
def test_a_training_run_of_something_else_is_not_taken(
    workshop: Workshop, training: TrainingResult, choice: str
) -> None:
    with pytest.raises(ConfigError, match=f"Train one first: .*{choice}"):
        workshop.evaluate("x/run", "baseline=memrerank", choice, experiment=TRAINED)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("target=w", "target: it has wc, this run has w"),
        ("extractor.prompt.style=full", "extractor.prompt: it has"),
    ],
)
def test_an_adapter_of_something_else_is_refused(
    workshop: Workshop, training: TrainingResult, override: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        workshop.evaluate(
            "x/run", "baseline=memrerank", f"baseline.adapter={training.adapter}", override
        )


def test_a_folder_without_an_adapter_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no trained memory extractor"):
        workshop.evaluate("x/run", "baseline=memrerank", f"baseline.adapter={tmp_path}")


def test_no_queries_left_says_what_was_counted(workshop: Workshop) -> None:
    message = r"no test queries in Electronics; counts: .*eval\.max_queries"
    with pytest.raises(DataError, match=message):
        workshop.evaluate("x/run", "eval.max_queries=0")


def test_other_splits_can_be_evaluated(workshop: Workshop) -> None:
    result = workshop.evaluate(
        "dev/run",
        "eval.split=dev",
        "eval.max_queries=2",
        "retriever.held_out=true",  # keeps it out of training alone
        experiment="dev",
    )
    assert result.metrics["queries"] == 2
    (run,) = workshop.runs("dev")
    assert run.data.tags["split"] == "dev"


def test_the_adapter_that_is_used_was_the_best_on_dev(training: TrainingResult) -> None:
    assert training.adapter is not None
    assert read_card(training.adapter).step == training.best_step == 2
