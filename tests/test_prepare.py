"""Preparation end to end, on the smallest demo store."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, Start, answer
from mlflow.entities import Run as MlflowRun
from small_jobs import SETTINGS, Workshop

from memrerank import pipeline
from memrerank.data.rewrite import read_rewrites
from memrerank.errors import ConfigError
from memrerank.prepare import choose_retrievers, prepare, relative_to, retrieve
from memrerank.schema import Benchmark, Split

ROOT = Path(__file__).parent.parent
EXPERIMENT = "prepare"
FIGURES = {"history_by_category.png", "history_lengths.png", "recall.png"}


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.getbasetemp() / "workshop")


@pytest.fixture(scope="session")
def report(workshop: Workshop) -> str:
    """The report of a first preparation."""
    folder = workshop.folder / EXPERIMENT / "first"
    prepare(workshop.config(entry="prepare", experiment=EXPERIMENT), folder)
    assert {path.name for path in folder.iterdir()} == {"data_report.md", *FIGURES}
    return (folder / "data_report.md").read_text()


@pytest.fixture(scope="session")
def benchmark(workshop: Workshop, report: str) -> Benchmark:
    return pipeline.make_benchmark(workshop.config(entry="prepare"))


@pytest.fixture(scope="session")
def run(workshop: Workshop, report: str) -> MlflowRun:
    (found,) = workshop.runs(EXPERIMENT)
    return found


def test_the_run_is_named_and_holds_the_report(
    workshop: Workshop, run: MlflowRun, benchmark: Benchmark
) -> None:
    tags = run.data.tags
    assert run.info.status == "FINISHED"
    assert (tags["kind"], tags["category"], tags["data"]) == ("prepare", "electronics", "demo")
    assert tags["benchmark"] == benchmark.fingerprint
    held = {file.path for file in workshop.client.list_artifacts(run.info.run_id, "data_report")}
    assert held == {f"data_report/{name}" for name in ("data_report.md", *FIGURES)}


def test_the_metrics_are_those_of_the_pools_and_instances_that_training_uses(
    workshop: Workshop, run: MlflowRun, benchmark: Benchmark
) -> None:
    cfg = workshop.config(entry="prepare")
    pools = pipeline.make_pools(cfg, benchmark, "bm25")
    for split, queries in benchmark.queries.items():
        ranks = [
            (*pools[query.id].product_ids, query.positive_id).index(query.positive_id)
            for query in queries
        ]
        for k in (1, 10, 100):
            share = sum(rank < k for rank in ranks) / len(ranks)
            assert run.data.metrics[f"{split}/bm25/recall_at_{k}"] == pytest.approx(share)
        assert run.data.metrics[f"{split}/queries"] == len(queries)
    for split in (Split.train, Split.dev):
        instances, _ = pipeline.make_instances(cfg, benchmark, {"bm25": pools}, split)
        assert run.data.metrics[f"{split}/bm25/instances"] == len(instances) > 0
    for name, count in benchmark.counts.items():
        assert run.data.metrics[f"counts/{name}"] == count


def test_no_shopper_is_named(report: str, benchmark: Benchmark) -> None:
    users = {query.user_id for queries in benchmark.queries.values() for query in queries}
    assert users
    assert not [user for user in users if user in report]


def test_a_second_preparation_makes_nothing_again(workshop: Workshop, report: str) -> None:
    folder = workshop.folder / EXPERIMENT / "second"
    prepare(workshop.config(entry="prepare", experiment=f"{EXPERIMENT}-again"), folder)
    again = (folder / "data_report.md").read_text()
    assert "| reused |" in again
    assert again == report.replace("| made |", "| reused |")


def test_files_are_named_by_their_paths_below_the_root(report: str, workshop: Workshop) -> None:
    named = relative_to(Path("shop"), {"shop/a/b.csv": "1", "elsewhere/b.csv": "2"})
    assert named == {"a/b.csv": "1", "elsewhere/b.csv": "2"}
    assert "amazon_c4/test.csv` |" in report
    assert report.count(str(workshop.folder)) == 1  # the root itself


# ---------------------------------------------------------------- which retrievers


def test_the_evaluated_retriever_is_reported_too_and_each_once(workshop: Workshop) -> None:
    cfg = workshop.config("report.retrievers=[minilm,bm25]", entry="prepare")
    assert choose_retrievers(cfg) == ["minilm", "bm25"]
    cfg = workshop.config("report.retrievers=[minilm]", entry="prepare")
    assert choose_retrievers(cfg) == ["minilm", "bm25"]


def test_an_unknown_retriever_is_refused_before_anything_is_made(
    workshop: Workshop, tmp_path: Path
) -> None:
    cfg = workshop.config("report.retrievers=[bm52]", f"cache_dir={tmp_path}", entry="prepare")
    with pytest.raises(ConfigError, match=r"report\.retrievers: no retriever bm52; known: .*bm25"):
        prepare(cfg, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_no_instances_are_drawn_from_a_held_out_retriever(
    workshop: Workshop, benchmark: Benchmark
) -> None:
    cfg = workshop.config("retriever.held_out=true", entry="prepare")
    rows = retrieve(cfg, benchmark, "bm25")
    assert [row.instances for row in rows] == [None, None, None]
    cfg.retrieval.allow_held_out = True
    train, dev, test = retrieve(cfg, benchmark, "bm25")
    assert (train.instances, dev.instances) == (2 * train.eligible, 2 * dev.eligible)
    assert test.instances is None


# ---------------------------------------------------------------- the command


def test_a_sweep_leaves_a_report_for_each_category(workshop: Workshop, tmp_path: Path) -> None:
    data = {key: SETTINGS[key] for key in SETTINGS if key.startswith(("data", "retriev"))}
    options = [f"{key}={value}" for key, value in data.items()]
    places = [f"cache_dir={workshop.folder / 'cache'}", f"tracking.uri={workshop.uri}"]
    command = [sys.executable, str(ROOT / "prepare.py"), "-m", "category=electronics,beauty"]
    done = subprocess.run(
        [*command, *options, *places, "tracking.experiment=prepare-sweep"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reports = sorted(tmp_path.glob("multirun/prepare/*/*/data_report.md"))
    assert [path.parent.name for path in reports] == ["0", "1"]
    titles = [path.read_text().splitlines()[0] for path in reports]
    assert titles == ["# Data report: Electronics", "# Data report: Beauty and Personal Care"]
    assert all(title in done.stdout for title in titles)


def test_rewritten_queries_are_used_and_left_for_others(
    workshop: Workshop, benchmark: Benchmark, start: Start
) -> None:
    """With a model at a local server; its answers come back through `data.rewrite=file`."""

    def reply(request: dict[str, Any], number: int) -> Reply:
        (word, *_) = request["messages"][-1]["content"].split("<search>")[1].split()
        return answer(f"<rewritten_query>wanted: {word} {number}</rewritten_query>")

    server = start(reply)
    model = ["data.rewrite=llm", "rewriter.model=m", f"rewriter.base_url={server.url}"]
    folder = workshop.folder / EXPERIMENT / "rewritten"
    cfg = workshop.config(*model, entry="prepare", experiment="rewriting")
    prepare(cfg, folder)
    queries = [query for split in Split for query in benchmark.queries[split]]
    asked = [request["messages"][-1]["content"] for request in server.requests]
    assert 0 < len(asked) == len(set(asked)) <= len(queries)  # the same question is asked once
    rewrites = read_rewrites(folder / "rewrites.jsonl", [query.id for query in queries])
    assert all(text.startswith("wanted: ") for text in rewrites.values())
    assert len(set(rewrites.values())) == len(asked)

    file = ["data.rewrite=file", f"data.rewrites={folder / 'rewrites.jsonl'}"]
    again = pipeline.make_benchmark(workshop.config(*file, entry="prepare"))
    assert {q.id: q.text for split in Split for q in again.queries[split]} == rewrites
    assert len(server.requests) == len(asked)
    report = (folder / "data_report.md").read_text()
    assert "llm: by m" in report
    assert "before rewriting" in report
    reviews = {
        request["messages"][-1]["content"].split("<review>")[1] for request in server.requests
    }
    for file_written in folder.glob("*.*"):
        text = file_written.read_bytes()
        assert not any(review[:200].encode() in text for review in reviews)
