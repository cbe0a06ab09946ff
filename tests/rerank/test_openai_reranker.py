"""The API judge against a real HTTP server on this machine that speaks chat completions."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chat_server import Reply, Start, answer, refusal

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.openai import OpenAIReranker
from memrerank.schema import Comparison, Memory, Product


def comparison(query: str, sample: int = 0, size: int = 5) -> Comparison:
    products = tuple(Product(f"p{i}", f"Product {i}", "", "Electronics") for i in range(size))
    return Comparison(f"id {query}", query, Memory(), products, sample)


@pytest.fixture
def judge_at() -> Iterator[Callable[..., OpenAIReranker]]:
    judges: list[OpenAIReranker] = []

    def make(base_url: str | None, **changes: Any) -> OpenAIReranker:
        settings: dict[str, Any] = {
            "model": "judge-1",
            "base_url": base_url,
            "api_key_env": "TEST_JUDGE_KEY",
            "reasoning_effort": None,
            "temperature": None,
            "top_p": None,
            "max_completion_tokens": 64,
            "max_concurrency": 4,
            "timeout": 5.0,
            "max_retries": 0,
            "prices": None,
            "seed": 1,
        }
        judges.append(OpenAIReranker(**{**settings, **changes}))
        return judges[-1]

    yield make
    for judge in judges:
        judge.close()


# ---------------------------------------------------------------- answers


def test_answers_keep_their_order_under_bounded_concurrency(start: Start, judge_at: Any) -> None:
    def reply(body: dict[str, Any], _: int) -> Reply:
        number = int(re.findall(r"wanted (\d+)", body["messages"][1]["content"])[0])
        time.sleep(0.002 * (19 - number))  # the first asked is the last answered
        return answer("ABCDE"[number % 5])

    server = start(reply)
    judge = judge_at(server.url, max_concurrency=3)
    choices = judge.choose([comparison(f"wanted {i}") for i in range(20)])
    assert [choice.index for choice in choices] == [i % 5 for i in range(20)]
    assert server.most_in_flight == 3
    assert judge.calls == 20
    assert judge.choose([]) == []


def test_tokens_cost_and_latency_are_filled_in(start: Start, judge_at: Any) -> None:
    def reply(_: dict[str, Any], number: int) -> Reply:
        time.sleep(0.05)
        return answer("B" if number == 0 else "none of them")

    judge = judge_at(start(reply).url, prices={"prompt": 2.0, "completion": 8.0})
    valid, invalid = judge.choose([comparison("x")]) + judge.choose([comparison("y")])
    assert (valid.index, invalid.index) == (1, None)
    for choice in (valid, invalid):  # a bad answer is paid for too
        assert choice.tokens == 110
        assert choice.cost == pytest.approx((100 * 2 + 10 * 8) / 1e6)
        assert 0.05 <= choice.latency < 5


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer("A or B"), "not one label"),
        (answer("The first product"), "not one label"),
        (answer(None), "not one label"),
        (answer("", finish="length"), "cut off"),
        ((200, {}, {"id": "x", "choices": []}), "malformed response"),
        ((200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"), "malformed response"),
        ((200, {}, b"{not json"), "malformed response"),
        ((200, {}, []), "malformed response"),
        ((200, {}, {"choices": "A"}), "malformed response"),
        ((200, {}, {"choices": [{"message": None}]}), "malformed response"),
        (refusal(400, "context_length_exceeded"), "HTTP 400"),
        (refusal(500, "overloaded"), "HTTP 500"),
    ],
)
def test_what_is_no_answer_is_counted_by_kind(
    start: Start, judge_at: Any, reply: Reply, kind: str
) -> None:
    judge = judge_at(start(lambda *_: reply).url)
    assert [choice.index for choice in judge.choose([comparison("x")])] == [None]
    assert judge.failures == Counter({kind: 1})
    assert judge.calls == 1


def test_a_label_that_no_candidate_has_is_no_answer(start: Start, judge_at: Any) -> None:
    judge = judge_at(start(lambda *_: answer("D")).url)
    choices = judge.choose([comparison("x", size=3), comparison("x", size=4)])
    assert [choice.index for choice in choices] == [None, 3]


def test_timeouts_and_dead_servers_are_counted(start: Start, judge_at: Any) -> None:
    def reply(*_: Any) -> Reply:
        time.sleep(0.3)
        return answer("A")

    server = start(reply)
    slow = judge_at(server.url, timeout=0.05)
    assert slow.choose([comparison("x")])[0].index is None
    assert slow.failures == Counter({"timeout": 1})
    dead = judge_at("http://127.0.0.1:9/v1")
    assert dead.choose([comparison("x")])[0].index is None
    assert dead.failures == Counter({"APIConnectionError": 1})


# ---------------------------------------------------------------- what is sent


def test_sampling_parameters_are_sent_only_when_set(start: Start, judge_at: Any) -> None:
    server = start(lambda *_: answer("A"))
    judge_at(server.url, seed=None).choose([comparison("x")])
    judge_at(server.url, temperature=1.0, top_p=0.9, reasoning_effort="low").choose(
        [comparison("x")]
    )
    bare, full = server.requests
    assert bare.keys() == {"model", "messages", "max_completion_tokens"}
    assert bare["max_completion_tokens"] == 64
    assert (full["temperature"], full["top_p"], full["reasoning_effort"]) == (1.0, 0.9, "low")


def test_samples_of_a_question_have_seeds_of_their_own_and_repeats_do_not(judge_at: Any) -> None:
    judge = judge_at("http://127.0.0.1:9/v1")
    seeds = [judge.request(comparison("x", sample))["seed"] for sample in (0, 1, 2, 0)]
    assert len(set(seeds)) == 3
    assert seeds[0] == seeds[3]
    assert judge.request(comparison("x")) == judge.request(comparison("x"))


# ---------------------------------------------------------------- errors


def test_haste_is_waited_out_as_the_server_says(start: Start, judge_at: Any) -> None:
    def reply(_: dict[str, Any], number: int) -> Reply:
        wait = {"Retry-After": "0.3"}
        return refusal(429, "rate_limit_exceeded", **wait) if number == 0 else answer("C")

    server = start(reply)
    judge = judge_at(server.url, max_retries=1)
    choice = judge.choose([comparison("x")])[0]
    assert choice.index == 2
    assert choice.latency >= 0.3
    assert len(server.requests) == 2
    assert judge.failures == Counter()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (refusal(401, "invalid_api_key"), r"the key from \$TEST_JUDGE_KEY was refused"),
        (refusal(403, "unsupported_country"), r"the key from \$TEST_JUDGE_KEY was refused"),
        (refusal(429, "insufficient_quota"), "no credit left"),
        (refusal(404, "model_not_found"), "judge-1 at .* no such model"),
        (refusal(400, "unsupported_value"), "set reranker.top_p to null"),
    ],
)
def test_what_can_never_succeed_stops_everything_at_once(
    start: Start, judge_at: Any, reply: Reply, message: str
) -> None:
    server = start(lambda *_: reply)
    judge = judge_at(server.url, max_retries=3)
    with pytest.raises(JudgeError, match=message) as caught:
        judge.choose([comparison(f"{i}") for i in range(50)])
    assert server.url in str(caught.value)
    assert len(server.requests) <= 2 * 4  # what was in flight: no retries, and not all fifty


def test_the_retired_judge_is_named_as_such(start: Start, judge_at: Any) -> None:
    judge = judge_at(start(lambda *_: refusal(404, "model_not_found")).url, model="o4-mini")
    with pytest.raises(JudgeError, match=r"o4-mini.*OpenAI ended its API on 2026-10-23.*base_url"):
        judge.choose([comparison("x")])


def test_too_many_failures_stop_the_run_with_their_kinds(start: Start, judge_at: Any) -> None:
    server = start(lambda _, number: answer("?") if number % 2 else refusal(500, "down"))
    judge = judge_at(server.url, max_failure_rate=0.05, max_concurrency=1)
    with pytest.raises(JudgeError, match="6 of the last 6 calls") as caught:
        judge.choose([comparison(f"{i}") for i in range(50)])  # the rate is taken over 100
    assert len(server.requests) <= 7
    assert "'HTTP 500': 3, 'not one label': 3" in str(caught.value)
    assert "reranker.max_failure_rate=0.05" in str(caught.value)


def test_a_failure_rate_within_the_limit_goes_on(start: Start, judge_at: Any) -> None:
    server = start(lambda _, number: answer("?") if number % 25 == 0 else answer("A"))
    judge = judge_at(server.url, max_failure_rate=0.05)
    choices = judge.choose([comparison(f"{i}") for i in range(250)])
    assert sum(choice.index is None for choice in choices) == 10
    assert judge.failures == Counter({"not one label": 10})


# ---------------------------------------------------------------- keys


def test_the_key_comes_from_the_named_variable(
    start: Start, judge_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(lambda *_: answer("A"))
    judge_at(server.url).choose([comparison("x")])  # unset, and the server is on this machine
    monkeypatch.setenv("TEST_JUDGE_KEY", "a-key")
    judge_at(server.url).choose([comparison("x")])
    assert server.keys == {"Bearer none", "Bearer a-key"}


@pytest.mark.parametrize("base_url", [None, "https://judge.example.org/v1"])
def test_a_missing_key_names_its_variable(judge_at: Any, base_url: str | None) -> None:
    with pytest.raises(ConfigError, match=r"variable TEST_JUDGE_KEY .reranker.api_key_env. is not"):
        judge_at(base_url)
    assert judge_at("https://judge.example.org/v1", api_key_env="").api_key_env == ""


def test_prices_of_another_unit_are_refused(judge_at: Any) -> None:
    with pytest.raises(ConfigError, match="give completion and prompt"):
        judge_at("http://127.0.0.1:9/v1", prices={"input": 1.0})


def test_no_requests_in_flight_at_all_is_refused(judge_at: Any) -> None:
    with pytest.raises(ConfigError, match="max_concurrency=0 must be 1 or more"):
        judge_at("http://127.0.0.1:9/v1", max_concurrency=0)
