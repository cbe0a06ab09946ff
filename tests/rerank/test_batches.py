"""The Batch API against a real HTTP server on this machine that speaks it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, Outcome, done, expired, failed
from chat_server import answer

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank import batches
from memrerank.rerank.ledger import Price
from memrerank.rerank.openai import OpenAIReranker
from memrerank.schema import Comparison, Memory, Product, Usage

Serve = Callable[..., BatchServer]


def comparison(query: str) -> Comparison:
    products = tuple(Product(f"p{i}", f"Product {i}", "", "Toys") for i in range(5))
    return Comparison(f"id {query}", query, Memory(), products)


QUESTIONS = [comparison(f"wanted {i}") for i in range(5)]


def settle(body: dict[str, Any]) -> Outcome:
    """The label that the query's number stands for."""
    number = int(body["messages"][1]["content"].split("wanted ")[1].split("<")[0])
    return done(answer("ABCDE"[number])[2])


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[BatchServer] = []

    def start(settle: Callable[[dict[str, Any]], Outcome | None], **how: Any) -> BatchServer:
        servers.append(BatchServer(settle, **how))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def judge_at(tmp_path: Path) -> Iterator[Callable[..., OpenAIReranker]]:
    judges: list[OpenAIReranker] = []

    def make(url: str, **changes: Any) -> OpenAIReranker:
        settings: dict[str, Any] = {
            "model": "judge-1",
            "base_url": url,
            "api_key_env": "",
            "prompt": "setwise",
            "answer": "plain",
            "logprobs": False,
            "seed": None,
            "max_completion_tokens": 64,
            "max_concurrency": 4,
            "timeout": 5.0,
            "max_retries": 0,
            "price": Price(2.0, 0.5, 8.0, batch=0.5),
            "batch": True,
            "batch_poll_seconds": 0.01,
            "batch_folder": tmp_path / "batches",
        }
        judges.append(OpenAIReranker(**{**settings, **changes}))
        return judges[-1]

    yield make
    for judge in judges:
        judge.close()


def test_answers_come_back_in_order_at_the_batch_price(
    serve: Serve, judge_at: Any, tmp_path: Path
) -> None:
    server = serve(settle)
    judge = judge_at(server.url)
    choices = judge.choose(QUESTIONS)
    assert [choice.index for choice in choices] == [0, 1, 2, 3, 4]
    assert choices[0].usage == Usage(100, 0, 10)
    assert choices[0].cost == pytest.approx((100 * 2 + 10 * 8) / 1e6 / 2)
    assert judge.ledger.spent == pytest.approx(5 * choices[0].cost)
    assert "POST /v1/chat/completions" not in server.calls
    assert server.calls[:2] == ["POST /v1/files", "POST /v1/batches"]
    assert list((tmp_path / "batches").iterdir()) == []
    assert judge.choose([]) == []


def test_a_stopped_run_finds_its_batch_again(
    serve: Serve, judge_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(settle)

    async def stop(*_: Any) -> None:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(batches.asyncio, "sleep", stop)
        with pytest.raises(RuntimeError, match="stopped"):
            judge_at(server.url).choose(QUESTIONS)
    assert len(server.batches) == 1
    choices = judge_at(server.url).choose(QUESTIONS)
    assert [choice.index for choice in choices] == [0, 1, 2, 3, 4]
    assert len(server.batches) == 1  # sent once, paid for once
    judge_at(server.url).choose(QUESTIONS[:2])  # other questions are another batch
    assert len(server.batches) == 2


def test_what_failed_in_a_batch_is_told_apart(serve: Serve, judge_at: Any) -> None:
    outcomes = iter(
        [
            done(answer("A")[2]),
            done(answer("A or B")[2]),
            failed(500, "overloaded"),
            expired(),
            None,
        ]
    )
    judge = judge_at(serve(lambda _: next(outcomes)).url, max_failure_rate=1.0)
    choices = judge.choose(QUESTIONS)
    assert [choice.index for choice in choices] == [0, None, None, None, None]
    assert [choice.failure for choice in choices] == [
        None,
        "invalid",
        "failed",
        "timed_out",
        "failed",
    ]
    assert judge.client.failures == {"invalid": 1, "failed": 2, "timed_out": 1}


def test_too_many_failures_stop_the_run(serve: Serve, judge_at: Any) -> None:
    judge = judge_at(serve(lambda _: failed(500, "overloaded")).url, max_failure_rate=0.01)
    with pytest.raises(JudgeError, match=r"reranker\.max_failure_rate=0\.01"):
        judge.choose(QUESTIONS)


@pytest.mark.parametrize("status", ["failed", "expired", "cancelled"])
def test_a_batch_without_any_answer_is_an_error_and_not_waited_for_again(
    serve: Serve, judge_at: Any, status: str
) -> None:
    server = serve(lambda _: None, status=status)
    for _ in range(2):
        with pytest.raises(JudgeError, match=rf"batch batch-\d has {status} without an answer"):
            judge_at(server.url).choose(QUESTIONS)
    assert len(server.batches) == 2


@pytest.mark.parametrize("status", [404, 405, 501])
def test_an_endpoint_without_batches_is_named(
    serve: Serve, judge_at: Any, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    server = serve(settle)
    monkeypatch.setattr(server, "post", lambda *_: (status, {"error": {"message": "not here"}}))
    with pytest.raises(ConfigError, match=r"reranker\.batch=true: .* has no Batch API"):
        judge_at(server.url).choose(QUESTIONS)


def test_a_batch_beyond_the_budget_is_not_sent(serve: Serve, judge_at: Any) -> None:
    server = serve(settle)
    judge = judge_at(server.url, budget_usd=0.001)
    with pytest.raises(JudgeError, match=r"reranker\.budget_usd=0\.001: 0\.0000 US dollars"):
        judge.choose(QUESTIONS)
    assert server.calls == []


def test_many_requests_go_out_in_several_files(
    serve: Serve, judge_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_REQUESTS", 2)
    server = serve(settle)
    choices = judge_at(server.url).choose(QUESTIONS)
    assert [choice.index for choice in choices] == [0, 1, 2, 3, 4]
    assert len(server.batches) == 3
    monkeypatch.setattr(batches, "MOST_REQUESTS", 100)
    monkeypatch.setattr(batches, "MOST_BYTES", 10)  # one request always goes
    assert [c.index for c in judge_at(server.url).choose(QUESTIONS[:2])] == [0, 1]
    assert len(server.batches) == 5
