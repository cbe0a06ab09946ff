"""The chat client: what comes back, when, and what is said of it."""

import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chat_server import Reply, Start, answer, refusal

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.chat import ChatClient
from memrerank.rerank.completions import Answer
from memrerank.rerank.ledger import Price
from memrerank.rerank.session import ChatSettings
from memrerank.schema import Usage

ClientAt = Callable[..., ChatClient]


@pytest.fixture
def client_at() -> Iterator[ClientAt]:
    clients: list[ChatClient] = []

    def make(base_url: str | None, **changes: Any) -> ChatClient:
        settings: dict[str, Any] = {
            "model": "chat-1",
            "base_url": base_url,
            "api_key_env": "TEST_CHAT_KEY",
            "max_completion_tokens": 64,
            "max_concurrency": 2,
            "timeout": 5.0,
            "max_retries": 0,
        }
        clients.append(ChatClient(ChatSettings(**{**settings, **changes})))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def requests(client: ChatClient, *texts: str) -> list[dict[str, Any]]:
    return [client.request([{"role": "user", "content": text}]) for text in texts]


def echo(body: dict[str, Any], _: int) -> Reply:
    return answer(body["messages"][-1]["content"].upper())


def test_answers_come_in_order_with_what_they_took(start: Start, client_at: ClientAt) -> None:
    client = client_at(start(echo).url, price=Price(1.0, 0.1, 10.0))
    answers = client.complete(requests(client, "a", "b", "c"))
    assert [one.text for one in answers] == ["A", "B", "C"]
    assert {(one.usage, one.failure) for one in answers} == {(Usage(100, 0, 10), None)}
    assert answers[0].cost == pytest.approx((100 * 1 + 10 * 10) / 1e6)
    assert all(0 < one.latency < 5 for one in answers)
    assert client.complete([]) == []
    assert (client.calls, client.failures) == (3, {})


def test_each_answer_is_handed_over_while_others_are_still_to_come(
    start: Start, client_at: ClientAt
) -> None:
    server = start(echo)
    client = client_at(server.url, max_concurrency=1)
    seen: list[tuple[int, str | None, int]] = []

    def on_answer(place: int, one: Answer) -> None:
        seen.append((place, one.text, len(server.requests)))

    client.complete(requests(client, "a", "b", "c"), on_answer)
    assert [(place, text) for place, text, _ in seen] == [(0, "A"), (1, "B"), (2, "C")]
    assert seen[0][2] < 3


def test_an_error_of_the_taker_ends_the_batch(start: Start, client_at: ClientAt) -> None:
    server = start(echo)
    client = client_at(server.url)

    def on_answer(place: int, one: Answer) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        client.complete(requests(client, *"abcdefghij"), on_answer)
    assert len(server.requests) <= 2 * 2


def test_a_check_names_what_is_no_answer(start: Start, client_at: ClientAt) -> None:
    client = client_at(start(echo).url)
    texts = ("good", "bad", "good")

    def check(place: int, one: Answer) -> str | None:
        assert one.text == texts[place].upper()
        return "bad word" if one.text == "BAD" else None

    answers = client.complete(requests(client, *texts), check=check)
    assert [one.failure for one in answers] == [None, "invalid", None]
    assert answers[1].text == "BAD"  # kept, and paid for
    assert answers[1].usage == Usage(100, 0, 10)
    assert answers[1].detail == "bad word: 'BAD'"
    assert client.failures == {"invalid": 1}


@pytest.mark.parametrize(
    ("reply", "text", "failure"),
    [
        (answer("  "), "  ", "invalid: empty answer"),
        (answer(None), "", "invalid: empty answer"),
        (answer(None, finish="length"), "", "invalid: cut off: raise reranker.max_completion"),
        ((200, {}, {"choices": []}), None, "failed: malformed response"),
        (refusal(500, "down"), None, "failed: Error code: 500"),
    ],
)
def test_without_a_check_any_text_is_an_answer(
    start: Start, client_at: ClientAt, reply: Reply, text: str | None, failure: str
) -> None:
    client = client_at(start(lambda *_: reply).url)
    (one,) = client.complete(requests(client, "a"))
    assert one.text == text
    assert f"{one.failure}: {one.detail}".startswith(failure)
    assert client.failures == {one.failure: 1}


def test_messages_name_the_settings_of_their_group(start: Start, client_at: ClientAt) -> None:
    with pytest.raises(ConfigError, match=r"rewriter\.max_concurrency=0"):
        client_at("http://127.0.0.1:9/v1", group="rewriter", max_concurrency=0)
    with pytest.raises(ConfigError, match=r"TEST_CHAT_KEY \(rewriter\.api_key_env\) is not set"):
        client_at(None, group="rewriter").complete([{}])
    spent = client_at(start(lambda *_: refusal(429, "insufficient_quota")).url, group="rewriter")
    with pytest.raises(JudgeError, match=r"add credit, or set data\.rewrite=none"):
        spent.complete(requests(spent, "a"))
    down = client_at(start(lambda *_: refusal(500, "down")).url, group="rewriter")
    with pytest.raises(JudgeError, match=r"rewriter\.max_failure_rate=0\.05"):
        down.complete(requests(down, *"abcdefgh"))


@pytest.mark.parametrize("status", [401, 500])
def test_a_key_that_the_server_repeats_is_not_told(
    start: Start,
    client_at: ClientAt,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    status: int,
) -> None:
    monkeypatch.setenv("TEST_CHAT_KEY", "sk-secret-1")
    server = start(lambda *_: refusal(status, "bad key sk-secret-1"))
    client = client_at(server.url, max_failure_rate=0.0)
    with caplog.at_level(logging.DEBUG), pytest.raises(JudgeError) as caught:
        client.complete(requests(client, "a"))
    assert server.keys == {"Bearer sk-secret-1"}
    assert "bad key (the key)" in str(caught.value)
    assert "sk-secret-1" not in "".join(traceback.format_exception(caught.value))
    assert any(record.name.startswith("openai") for record in caplog.records)
    assert "sk-secret-1" not in caplog.text
