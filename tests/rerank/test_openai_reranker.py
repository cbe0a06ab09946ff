"""The API judge against a real HTTP server on this machine that speaks chat completions."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chat_server import Reply, Start, answer, refusal

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.ledger import Price
from memrerank.rerank.openai import OpenAIReranker
from memrerank.schema import Comparison, Memory, Product, Question, Usage


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
            "prompt": "setwise",
            "answer": "plain",
            "logprobs": False,
            "max_completion_tokens": 64,
            "max_concurrency": 4,
            "timeout": 5.0,
            "max_retries": 0,
            "price": None,
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
    assert judge.client.calls == 20
    assert judge.choose([]) == []


def test_tokens_cost_and_latency_are_filled_in(start: Start, judge_at: Any) -> None:
    def reply(_: dict[str, Any], number: int) -> Reply:
        time.sleep(0.05)
        return answer("B" if number == 0 else "none of them")

    judge = judge_at(start(reply).url, price=Price(2.0, 0.5, 8.0))
    valid, invalid = judge.choose([comparison("x")]) + judge.choose([comparison("y")])
    assert (valid.index, invalid.index) == (1, None)
    for choice in (valid, invalid):  # a bad answer is paid for too
        assert choice.usage == Usage(100, 0, 10)
        assert choice.cost == pytest.approx((100 * 2 + 10 * 8) / 1e6)
        assert 0.05 <= choice.latency < 5


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer("A or B"), "invalid"),
        (answer("The first product"), "invalid"),
        (answer(None), "invalid"),
        (answer("", finish="length"), "invalid"),
        (answer("A", finish="content_filter"), "refused"),
        (answer(None, refusal="I cannot help with that"), "refused"),
        (refusal(400, "content_policy_violation"), "refused"),
        ((200, {}, {"id": "x", "choices": []}), "failed"),
        ((200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"), "failed"),
        ((200, {}, b"{not json"), "failed"),
        ((200, {}, []), "failed"),
        ((200, {}, {"choices": "A"}), "failed"),
        ((200, {}, {"choices": [{"message": None}]}), "failed"),
        (refusal(400, "context_length_exceeded"), "failed"),
        (refusal(429, "rate_limit_exceeded"), "rate_limited"),
        (refusal(500, "overloaded"), "failed"),
    ],
)
def test_what_is_no_answer_is_counted_by_kind(
    start: Start, judge_at: Any, reply: Reply, kind: str
) -> None:
    judge = judge_at(start(lambda *_: reply).url)
    (choice,) = judge.choose([comparison("x")])
    assert (choice.index, choice.failure) == (None, kind)
    assert judge.client.failures == Counter({kind: 1})
    assert judge.client.calls == 1


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
    assert slow.client.failures == Counter({"timed_out": 1})
    dead = judge_at("http://127.0.0.1:9/v1")
    assert dead.choose([comparison("x")])[0].index is None
    assert dead.client.failures == Counter({"failed": 1})


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
    assert judge.client.failures == Counter()


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
    with pytest.raises(
        JudgeError, match=r"o4-mini.*OpenAI ended that model's API on 2026-10-23.*reranker=gpt"
    ):
        judge.choose([comparison("x")])


def test_too_many_failures_stop_the_run_with_their_kinds(start: Start, judge_at: Any) -> None:
    server = start(lambda _, number: answer("?") if number % 2 else refusal(500, "down"))
    judge = judge_at(server.url, max_failure_rate=0.05, max_concurrency=1)
    with pytest.raises(JudgeError, match="6 of the last 6 calls") as caught:
        judge.choose([comparison(f"{i}") for i in range(50)])  # the rate is taken over 100
    assert len(server.requests) <= 7
    assert "'failed': 3, 'invalid': 3" in str(caught.value)
    assert "reranker.max_failure_rate=0.05" in str(caught.value)


def test_a_failure_rate_within_the_limit_goes_on(start: Start, judge_at: Any) -> None:
    server = start(lambda _, number: answer("?") if number % 25 == 0 else answer("A"))
    judge = judge_at(server.url, max_failure_rate=0.05)
    choices = judge.choose([comparison(f"{i}") for i in range(250)])
    assert sum(choice.index is None for choice in choices) == 10
    assert judge.client.failures == Counter({"invalid": 10})


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
def test_a_missing_key_names_its_variable_once_it_is_needed(
    judge_at: Any, base_url: str | None
) -> None:
    judge = judge_at(base_url)
    assert judge.request(comparison("x"))["model"] == "judge-1"
    with pytest.raises(ConfigError, match=r"variable TEST_JUDGE_KEY .reranker.api_key_env. is not"):
        judge.choose([comparison("x")])


def test_no_requests_in_flight_at_all_is_refused(judge_at: Any) -> None:
    with pytest.raises(ConfigError, match="max_concurrency=0 must be 1 or more"):
        judge_at("http://127.0.0.1:9/v1", max_concurrency=0)


# ---------------------------------------------------------------- other questions


def test_an_order_is_read_strictly(start: Start, judge_at: Any) -> None:
    replies = ["E > A > B > D > C", "Order: E, A, B, D, C.", "E > A > B", "E > A > B > D > D"]
    server = start(lambda _, number: answer(replies[number]))
    judge = judge_at(server.url, max_concurrency=1)
    choices = judge.order([comparison(str(i)) for i in range(4)])
    assert [choice.order for choice in choices] == [(4, 0, 1, 3, 2)] * 2 + [()] * 2
    assert [choice.index for choice in choices] == [4, 4, None, None]
    assert [choice.failure for choice in choices] == [None, None, "invalid", "invalid"]


def test_structured_answers_are_held_to_a_schema(start: Start, judge_at: Any) -> None:
    replies = ['{"label": "C"}', '{"order": ["C", "A", "B"]}', "C", '{"label": "D"}']
    server = start(lambda _, number: answer(replies[number]))
    judge = judge_at(server.url, answer="structured")
    assert judge.choose([comparison("x", size=3)])[0].index == 2
    assert judge.order([comparison("x", size=3)])[0].order == (2, 0, 1)
    assert judge.choose([comparison("x", size=3)])[0].failure == "invalid"
    assert judge.choose([comparison("x", size=3)])[0].failure == "invalid"
    choose, order = (r["response_format"]["json_schema"]["schema"] for r in server.requests[:2])
    assert choose["properties"] == {"label": {"type": "string", "enum": ["A", "B", "C"]}}
    assert order["properties"]["order"]["items"]["enum"] == ["A", "B", "C"]
    assert "as JSON" in server.requests[0]["messages"][0]["content"]


def test_log_probabilities_become_the_distribution(start: Start, judge_at: Any) -> None:
    tops = [
        [("B", 0.5), (" B", 0.1), ("A", 0.2), ("The", 0.15), ("Z", 0.05)],
        [("The", 0.8), ("B", 0.2)],
    ]
    server = start(lambda _, number: answer("B", top_logprobs=tops[number]))
    judge = judge_at(server.url, logprobs=True)
    assert Question.distribution in judge.questions
    (sure,) = judge.distribution([comparison("x")])
    assert sure.probabilities == pytest.approx((0.25, 0.75, 0, 0, 0))
    assert sure.index == 1
    assert server.requests[0]["logprobs"] is True
    assert server.requests[0]["top_logprobs"] == 20
    (unsure,) = judge.distribution([comparison("y")])
    assert (unsure.index, unsure.failure, unsure.probabilities) == (None, "invalid", ())
    assert Question.distribution not in judge_at(server.url).questions
    with pytest.raises(ConfigError, match=r"reranker\.answer=plain"):
        judge_at(server.url, logprobs=True, answer="structured")


def test_each_choice_is_handed_over_as_it_comes(start: Start, judge_at: Any) -> None:
    server = start(lambda _, number: answer("?" if number == 1 else "B"))
    seen: list[tuple[int, int | None, int]] = []
    judge = judge_at(server.url, max_concurrency=1)
    judge.choose(
        [comparison(str(i)) for i in range(3)],
        lambda place, choice: seen.append((place, choice.index, len(server.requests))),
    )
    assert [(place, index) for place, index, _ in seen] == [(0, 1), (1, None), (2, 1)]
    assert seen[0][2] == 1
