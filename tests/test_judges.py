"""Evaluation and training end to end with a language model behind a real local HTTP server."""

import hashlib
import json
import math
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, Reply, Start, answer, hidden_order, refusal
from small_jobs import SETTINGS, Workshop

from memrerank import pipeline
from memrerank.errors import ConfigError, JudgeError
from memrerank.evaluate import evaluate
from memrerank.rerank.cache.__main__ import main as cache_command
from memrerank.rerank.prompting import plain
from memrerank.train import train

QUERIES = 2
PRICE = "{input: 10.0, cached_input: 1.0, output: 100.0, date: 2026-11-01}"
COST = (100 * 10 + 10 * 100) / 1e6  # of the server's answers: 100 tokens in, 10 out


def score(text: str) -> float:
    """A hidden order of all products."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.getbasetemp() / "workshop")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tmp_path / "judge.sqlite"


def judge(server: ChatServer | None, recording: Path, *more: str) -> list[str]:
    url = server.url if server else "http://127.0.0.1:9/v1"
    return [
        "reranker=openai",
        "reranker.model=judge-1",
        f"reranker.base_url={url}",
        "reranker.api_key_env=''",
        "reranker.max_retries=0",
        f"reranker.price={PRICE}",
        f"judge_cache.path={recording}",
        "baseline=raw",
        f"eval.max_queries={QUERIES}",
        *more,
    ]


def rankings(workshop: Workshop, name: str, places: int = 10) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (workshop.folder / name / "rankings.trec").read_text().splitlines():
        query_id, _, product_id, rank, *_ = line.split()
        if int(rank) <= places:
            found.setdefault(query_id, []).append(product_id)
    return found


def only_run(workshop: Workshop, experiment: str) -> Any:
    (run,) = workshop.runs(experiment)
    return run


# ---------------------------------------------------------------- ranking


def test_all_rankings_agree_with_the_hidden_order_and_are_told_apart(
    workshop: Workshop, start: Start, recording: Path
) -> None:
    server = start(hidden_order(score))
    found, metrics = {}, {}
    for name in ("knockout", "forest", "heapsort", "full_order"):
        result = workshop.evaluate(name, *judge(server, recording, f"ranking={name}"))
        assert result.labels["ranking"] == name
        found[name] = rankings(workshop, name)
        metrics[name] = result.metrics
    cfg = workshop.config(*judge(server, recording), entry="evaluate")
    corpus = pipeline.make_benchmark(cfg).corpus
    for tops in found.values():
        assert tops == found["knockout"]
        for top in tops.values():
            values = [score(shown(corpus[i].text)) for i in top]
            assert values == sorted(values, reverse=True)
    assert metrics["full_order"]["calls_per_query"] < 36
    assert metrics["knockout"]["calls_per_query"] <= 52
    assert metrics["forest"]["rounds_per_query"] < metrics["knockout"]["rounds_per_query"]


def shown(text: str) -> str:
    return plain(text)


def test_stopping_at_the_positive_keeps_mrr_and_is_labelled(
    workshop: Workshop, start: Start, recording: Path
) -> None:
    server = start(hidden_order(lambda text: text.count("e")))  # many ties, by label
    whole = workshop.evaluate("whole", *judge(server, recording))
    asked = len(server.requests)
    early = workshop.evaluate(
        "early", *judge(server, recording, "eval.stop_at_positive=true", "judge_cache.mode=off")
    )
    assert whole.labels["ranking"] == "knockout"
    assert early.labels["ranking"] == "knockout stop_at_positive"
    assert early.metrics["calls_per_query"] <= whole.metrics["calls_per_query"]
    assert len(server.requests) - asked <= asked


def test_votes_ask_in_several_orders(workshop: Workshop, start: Start, recording: Path) -> None:
    server = start(hidden_order(score))
    one = workshop.evaluate("one", *judge(server, recording, "eval.max_queries=1"))
    asked = len(server.requests)
    three = workshop.evaluate(
        "three", *judge(server, recording, "eval.max_queries=1", "ranking.votes=3")
    )
    assert three.labels["ranking"] == "knockout votes=3"
    assert three.metrics["calls_per_query"] == 3 * one.metrics["calls_per_query"]
    assert len(server.requests) == 3 * asked  # the first vote is the recorded one
    assert rankings(workshop, "three") == rankings(workshop, "one")


@pytest.mark.parametrize(
    ("ranking", "message"), [("pointwise", "asks the judge to score, which it cannot")]
)
def test_a_ranking_that_the_judge_cannot_do_is_refused(
    workshop: Workshop, start: Start, recording: Path, ranking: str, message: str
) -> None:
    server = start(hidden_order(score))
    with pytest.raises(ConfigError, match=message):
        workshop.evaluate("cannot", *judge(server, recording, f"ranking={ranking}"))
    assert server.requests == []


# ---------------------------------------------------------------- recordings


def test_another_lab_replays_a_table_without_key_and_server(
    workshop: Workshop, start: Start, recording: Path, tmp_path: Path, capsys: Any
) -> None:
    server = start(hidden_order(score, noise=1e12))
    first = workshop.evaluate("first", *judge(server, recording))
    asked = len(server.requests)
    assert asked == sum(1 for _ in first.per_query["mrr_at_10"]) * first.metrics["calls_per_query"]
    again = workshop.evaluate("again", *judge(server, recording))
    assert len(server.requests) == asked
    assert again.metrics["judge/evaluate/replayed_rate"] == 1.0
    assert again.metrics["judge/cost_usd"] == 0.0

    cache_command(["export", str(recording), str(tmp_path / "answers.parquet")])
    cache_command(["import", str(tmp_path / "other.sqlite"), str(tmp_path / "answers.parquet")])
    replay = ["judge_cache.mode=readonly", "reranker.api_key_env=NO_SUCH_KEY"]
    replayed = workshop.evaluate("replayed", *judge(None, tmp_path / "other.sqlite", *replay))
    for other in (again, replayed):
        assert other.per_query == first.per_query
    assert rankings(workshop, "replayed", 100) == rankings(workshop, "first", 100)
    with pytest.raises(
        JudgeError, match=r"other\.sqlite: no recorded answer for query .*readwrite"
    ):
        workshop.evaluate(
            "miss", *judge(None, tmp_path / "other.sqlite", *replay, "data.split_seed=1")
        )


# ---------------------------------------------------------------- failures


def test_invalid_answers_are_asked_again_and_counted(
    workshop: Workshop, start: Start, recording: Path
) -> None:
    perfect = hidden_order(score)

    def reply(body: dict[str, Any], number: int) -> Reply:
        return answer("A or B") if number % 4 == 0 else perfect(body, number)

    options = ["reranker.max_failure_rate=0.5", "reranker.max_concurrency=1"]
    result = workshop.evaluate("invalid", *judge(start(reply), recording, *options))
    assert 0.2 < result.metrics["judge/evaluate/invalid_rate"] < 0.3
    assert result.metrics["judge/evaluate/unanswered"] <= 5  # asked up to three times
    sound = workshop.evaluate("sound", *judge(start(perfect), recording.with_name("b.sqlite")))
    assert sound.metrics["judge/evaluate/invalid_rate"] == 0
    shares = [sound.metrics[f"judge/evaluate/place_{i}"] for i in range(1, 6)]
    assert sum(shares) == pytest.approx(1)
    assert all(0.1 < share < 0.3 for share in shares)


def test_too_many_failures_stop_the_run_and_what_came_is_kept(
    workshop: Workshop, start: Start, recording: Path
) -> None:
    perfect = hidden_order(score)

    def reply(body: dict[str, Any], number: int) -> Reply:
        return perfect(body, number) if number < 60 else refusal(500, "down")

    server = start(reply)
    with pytest.raises(JudgeError, match=r"reranker\.max_failure_rate=0\.05.*\'failed\'"):
        workshop.evaluate("down", *judge(server, recording), experiment="down")
    run = only_run(workshop, "down")
    assert run.info.status == "FAILED"
    assert run.data.metrics["judge/evaluate/calls"] > 60
    back = start(perfect)
    whole = workshop.evaluate("up", *judge(back, recording), experiment="up")
    assert len(back.requests) == QUERIES * whole.metrics["calls_per_query"] - 60


def test_a_refused_key_stops_at_once(workshop: Workshop, start: Start, recording: Path) -> None:
    server = start(lambda *_: refusal(401, "invalid_api_key"))
    with pytest.raises(JudgeError, match=r"the key from .* was refused; put a valid key"):
        workshop.evaluate("refused", *judge(server, recording))
    assert len(server.requests) <= 32


# ---------------------------------------------------------------- money


def test_a_dry_run_tells_what_the_evaluation_takes_and_asks_nothing(
    workshop: Workshop, start: Start, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start(hidden_order(score))
    options = judge(server, recording)
    cfg = workshop.config(*options, "dry_run=true", entry="evaluate")
    assert evaluate(cfg, workshop.folder / "dry") is None
    told = capsys.readouterr().out
    assert server.requests == []
    estimate = json.loads((workshop.folder / "dry/estimate.json").read_text())
    result = workshop.evaluate("wet", *options)
    calls = QUERIES * result.metrics["calls_per_query"]
    assert estimate["calls"]["evaluate"] == pytest.approx(calls, rel=0.05)
    characters = sum(len(m["content"]) for r in server.requests for m in r["messages"])
    assert estimate["input_tokens"]["evaluate"] == pytest.approx(characters / 4, rel=0.08)
    inputs, count = estimate["input_tokens"]["evaluate"], estimate["calls"]["evaluate"]
    usual = (inputs * 10 + count * 16 * 100) / 1e6
    most = (inputs * 10 + count * 1024 * 100) / 1e6
    assert f"| {usual:,.4f} to {most:,.4f} |" in told
    assert "prices of 2026-11-01" in told
    evaluate(cfg, workshop.folder / "dry-again")  # all is recorded now
    again = json.loads((workshop.folder / "dry-again/estimate.json").read_text())
    assert again["calls"] == {}


def test_a_dry_run_of_a_judge_in_this_process_tells_calls_alone(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(workshop.config("dry_run=true", entry="evaluate"), workshop.folder / "dry-own")
    told = capsys.readouterr().out
    assert "| evaluate | 20" in told
    assert "reranker=embedding runs in this process" in told


def test_a_dry_run_of_a_training_is_what_it_takes_at_most(
    workshop: Workshop, start: Start, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start(hidden_order(score, noise=1e14))
    options = judge(server, recording, "reward.utility=sampled", "reward.samples=2")
    assert train(workshop.config(*options, "dry_run=true"), workshop.folder / "dry-train") is None
    assert server.requests == []
    assert "| train |" in capsys.readouterr().out
    calls = json.loads((workshop.folder / "dry-train/estimate.json").read_text())["calls"]
    assert calls["train"] == 2 * 2 * 3 * 2  # steps, prompts, rollouts, samples
    workshop.train("wet-train", *options, experiment="wet-train")
    metrics = only_run(workshop, "wet-train").data.metrics
    assert 0 < metrics["judge/train/calls"] <= calls["train"]
    assert metrics["judge/dev/calls"] <= 1.1 * calls["dev"]
    assert metrics["judge/train/cost_usd"] == pytest.approx(COST * metrics["judge/train/calls"])
    assert "judge/train/place_1" in metrics


def test_a_budget_stops_before_it_is_spent_and_the_next_run_goes_on(
    workshop: Workshop, start: Start, recording: Path
) -> None:
    server = start(hidden_order(score))
    small = ["reranker.budget_usd=0.1", "reranker.max_completion_tokens=64"]
    with pytest.raises(
        JudgeError, match=r"reranker\.budget_usd=0\.1: 0\.0\d+ US dollars are spent"
    ):
        workshop.evaluate("budget", *judge(server, recording, *small), experiment="budget")
    spent = only_run(workshop, "budget").data.metrics["judge/cost_usd"]
    assert 0.04 < spent <= 0.1  # a call of this size may cost 0.03
    paid = len(server.requests)
    assert spent == pytest.approx(paid * COST)
    result = workshop.evaluate("later", *judge(server, recording, small[1]))
    assert len(server.requests) == QUERIES * result.metrics["calls_per_query"]
    assert result.metrics["judge/evaluate/replayed_rate"] == pytest.approx(
        paid / len(server.requests)
    )


# ---------------------------------------------------------------- training


def test_what_had_no_answer_leaves_the_reward(
    workshop: Workshop, start: Start, recording: Path
) -> None:
    perfect = hidden_order(score)
    seen: Counter[str] = Counter()

    def reply(body: dict[str, Any], number: int) -> Reply:
        seen["all"] += 1
        return perfect(body, number) if number % 3 else answer("none of these")

    options = ["reward.utility=sampled", "reward.samples=1", "reranker.max_failure_rate=1.0"]
    options += ["judging.max_reasks=0", "dev.queries=2", "reranker.max_concurrency=1"]
    workshop.train("gaps", *judge(start(reply), recording, *options), experiment="gaps")
    metrics = only_run(workshop, "gaps").data.metrics
    assert metrics["judge/train/invalid_rate"] == pytest.approx(1 / 3, abs=0.15)
    assert metrics["judge/train/unanswered"] > 0
    assert not math.isnan(metrics["reward"])


def test_a_judge_without_a_model_is_told_which_setting_lacks(workshop: Workshop) -> None:
    with pytest.raises(ConfigError, match=r"reranker\.model has no value: set reranker\.model="):
        workshop.evaluate("nameless", "reranker=vllm", "baseline=raw", "judge_cache.mode=off")
    with pytest.raises(ConfigError, match=r"reranker\.model has no value"):
        workshop.evaluate("nameless", "reranker=vllm", "baseline=raw", "dry_run=true")


def test_batches_are_not_for_training(workshop: Workshop, recording: Path) -> None:
    with pytest.raises(ConfigError, match=r"reranker\.batch=true: every training step would wait"):
        workshop.train("batch", *judge(None, recording, "reranker.batch=true"))


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_ctrl_c_ends_an_evaluation_within_seconds_and_keeps_its_answers(
    workshop: Workshop, start: Start, recording: Path
) -> None:
    """The process itself: what ends it, what it says, and what another run finds."""
    perfect = hidden_order(score)

    def reply(body: dict[str, Any], number: int) -> Reply:
        if number >= 40:
            time.sleep(30)
        return perfect(body, number)

    server = start(reply)
    own = {**SETTINGS, "cache_dir": workshop.folder / "cache", "tracking.uri": workshop.uri}
    settings = [f"{k}={v}" for k, v in own.items() if not k.startswith("reranker.")]
    command = [sys.executable, "evaluate.py", *settings, *judge(server, recording)]
    process = subprocess.Popen(
        [*command, f"hydra.run.dir={workshop.folder}/stopped", "tracking.experiment=stopped"],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for _ in range(600):
        if len(server.requests) > 40:
            break
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT, told
    assert "Stopped. What was made and recorded stays." in told
    assert "Traceback" not in told
    assert only_run(workshop, "stopped").info.status == "KILLED"
    assert only_run(workshop, "stopped").data.metrics["judge/evaluate/calls"] == 40
    again = start(perfect)
    result = workshop.evaluate("gone-on", *judge(again, recording))
    assert len(again.requests) == QUERIES * result.metrics["calls_per_query"] - 40
