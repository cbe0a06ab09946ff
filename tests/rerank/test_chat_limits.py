"""Budget, pace, bounded memory and Ctrl-C of the chat client, against a real local server."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chat_server import Reply, Start, answer, cut_connection, refusal

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.chat import ChatClient, prompt_bytes
from memrerank.rerank.completions import Answer
from memrerank.rerank.ledger import Price
from memrerank.rerank.session import ChatSettings

PRICE = Price(input=10.0, cached_input=1.0, output=100.0)  # dollars per million tokens
REAL_COST = (100 * 10 + 10 * 100) / 1e6  # of the server's answers: 100 tokens in, 10 out
ClientAt = Callable[..., ChatClient]


@pytest.fixture
def client_at() -> Iterator[ClientAt]:
    clients: list[ChatClient] = []

    def make(base_url: str, **changes: Any) -> ChatClient:
        settings: dict[str, Any] = {
            "model": "chat-1",
            "base_url": base_url,
            "api_key_env": "",
            "max_completion_tokens": 50,
            "max_concurrency": 4,
            "timeout": 5.0,
            "max_retries": 0,
        }
        clients.append(ChatClient(ChatSettings(**{**settings, **changes})))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def requests(client: ChatClient, count: int, text: str = "x" * 84) -> list[dict[str, Any]]:
    """Each of 100 bytes, marks included."""
    made = [client.request([{"role": "user", "content": text}]) for _ in range(count)]
    assert prompt_bytes(made[0]) == 100
    return made


BOUND = (100 * 10 + 50 * 100) / 1e6  # of one request: 100 bytes, 50 tokens out


# ---------------------------------------------------------------- budget


@pytest.mark.parametrize("concurrency", [1, 4, 32])
def test_the_budget_is_never_exceeded_and_used_to_the_last_call(
    start: Start, client_at: ClientAt, concurrency: int
) -> None:
    server = start(lambda *_: answer("A"))
    budget = 0.0251
    client = client_at(server.url, price=PRICE, budget_usd=budget, max_concurrency=concurrency)
    kept: list[int] = []
    with pytest.raises(JudgeError, match=r"reranker\.budget_usd=0\.0251"):
        client.complete(requests(client, 100), lambda place, _: kept.append(place))
    spent = client.ledger.spent
    assert spent <= budget
    assert spent + BOUND > budget  # not one more call was sure to fit
    assert len(kept) == len(server.requests) == round(spent / REAL_COST) == 10


def test_a_budget_that_holds_everything_changes_nothing(start: Start, client_at: ClientAt) -> None:
    client = client_at(start(lambda *_: answer("A")).url, price=PRICE, budget_usd=1.0)
    assert len(client.complete(requests(client, 50))) == 50
    assert client.ledger.spent == pytest.approx(50 * REAL_COST)


def test_an_attempt_without_an_answer_is_charged_in_full(start: Start, client_at: ClientAt) -> None:
    replies = {0: cut_connection(), 1: answer("A")}
    client = client_at(
        start(lambda _, number: replies[number]).url,
        price=PRICE,
        budget_usd=1.0,
        max_retries=1,
        max_concurrency=1,
    )
    (one,) = client.complete(requests(client, 1))
    assert one.text == "A"
    assert client.ledger.spent == pytest.approx(BOUND + REAL_COST)
    metrics = client.ledger.metrics()
    assert metrics["judge/unconfirmed_cost_usd"] == pytest.approx(BOUND)
    assert metrics["judge/evaluate/retries"] == 1


def test_retries_keep_to_the_budget_too(start: Start, client_at: ClientAt) -> None:
    server = start(lambda *_: cut_connection())
    client = client_at(
        server.url, price=PRICE, budget_usd=2.5 * BOUND, max_retries=10, max_concurrency=3
    )
    with pytest.raises(JudgeError, match="budget_usd"):
        client.complete(requests(client, 5))
    assert len(server.requests) == 2
    assert client.ledger.spent == pytest.approx(2 * BOUND)


def test_refused_attempts_cost_nothing(start: Start, client_at: ClientAt) -> None:
    wait = {"Retry-After": "0.01"}
    server = start(
        lambda _, n: refusal(429, "rate_limit_exceeded", **wait) if n < 3 else answer("A")
    )
    client = client_at(server.url, price=PRICE, budget_usd=1.0, max_retries=3, max_concurrency=1)
    client.complete(requests(client, 1))
    assert client.ledger.spent == pytest.approx(REAL_COST)
    assert client.ledger.metrics()["judge/evaluate/rate_limited_attempts"] == 3


def test_a_budget_needs_a_price(client_at: ClientAt) -> None:
    with pytest.raises(ConfigError, match=r"reranker\.price=\{input"):
        client_at("http://127.0.0.1:9/v1", budget_usd=1.0)


# ---------------------------------------------------------------- pace


def test_requests_per_minute(start: Start, client_at: ClientAt) -> None:
    client = client_at(start(lambda *_: answer("A")).url, requests_per_minute=1200)
    started = time.perf_counter()
    client.complete(requests(client, 30))
    # a burst of one second's worth, 20, and the other 10 at 20 a second
    assert 0.45 <= time.perf_counter() - started < 2.5


def test_tokens_per_minute(start: Start, client_at: ClientAt) -> None:
    # each request counts 100 / 4 + 25 = 50 tokens; 10 seconds' worth are 100
    client = client_at(
        start(lambda *_: answer("A")).url, tokens_per_minute=600 * 10, usual_output=25
    )
    started = time.perf_counter()
    client.complete(requests(client, 24))  # 1,200 tokens: 1,000 at once, then 100 a second
    assert 1.9 <= time.perf_counter() - started < 5


@pytest.mark.parametrize(
    "changes",
    [
        {"requests_per_minute": 0},
        {"tokens_per_minute": 0},
        {"max_completion_tokens": 0},
        {"max_retries": -1},
        {"timeout": 0.0},
    ],
)
def test_limits_that_cannot_work(client_at: ClientAt, changes: dict[str, Any]) -> None:
    (name,) = changes
    with pytest.raises(ConfigError, match=rf"reranker\.{name}="):
        client_at("http://127.0.0.1:9/v1", **changes)


# ---------------------------------------------------------------- long batches


def test_requests_are_taken_as_they_are_sent(start: Start, client_at: ClientAt) -> None:
    server = start(lambda *_: answer("A"))
    client = client_at(server.url, max_concurrency=4)
    ahead = []

    def lazily() -> Iterator[dict[str, Any]]:
        for number, request in enumerate(requests(client, 200)):
            ahead.append(number - len(server.requests))
            yield request

    assert len(client.complete(lazily())) == 200
    assert max(ahead) <= 4


def test_answers_are_in_order_whatever_comes_first(start: Start, client_at: ClientAt) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        time.sleep(0.02 if number % 3 == 0 else 0)
        return answer(body["messages"][0]["content"])

    client = client_at(start(reply).url, max_concurrency=16)
    texts = [f"text {number}" for number in range(60)]
    made = [client.request([{"role": "user", "content": text}]) for text in texts]
    assert [one.text for one in client.complete(made)] == texts


def test_two_threads_may_ask_at_once(start: Start, client_at: ClientAt) -> None:
    client = client_at(start(lambda body, _: answer(body["messages"][0]["content"])).url)
    client.session  # noqa: B018  # opened once, before both
    found: dict[str, list[Answer]] = {}

    def ask(name: str) -> None:
        made = [client.request([{"role": "user", "content": name}]) for _ in range(20)]
        found[name] = client.complete(made)

    threads = [threading.Thread(target=ask, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all({one.text for one in answers} == {name} for name, answers in found.items())


# ---------------------------------------------------------------- Ctrl-C

STOPPED = """
import sys
from memrerank.rerank.chat import ChatClient
from memrerank.rerank.session import ChatSettings
client = ChatClient(ChatSettings(
    model="m", base_url=sys.argv[1], api_key_env="", max_completion_tokens=5, max_concurrency=8,
    timeout=60.0, max_retries=3,
))
asked = [client.request([{"role": "user", "content": str(i)}]) for i in range(1000)]
def on_answer(place, answer):
    print(answer.text, flush=True)
print("ready", flush=True)
client.complete(asked, on_answer)
"""


def test_ctrl_c_ends_it_within_a_second_with_every_answer_that_came(start: Start) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        if number >= 40:
            time.sleep(30)  # these never come
        return answer(body["messages"][0]["content"])

    server = start(reply)
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, server.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    answered = [process.stdout.readline().strip() for _ in range(40)]
    time.sleep(0.1)
    stopped = time.perf_counter()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=10)
    assert time.perf_counter() - stopped < 1.0
    assert process.returncode != 0
    assert "KeyboardInterrupt" in told
    assert sorted(map(int, answered)) == list(range(40))
