"""The cache of answers: what is asked, what is replayed, and what a key depends on."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.cache import CachedReranker
from memrerank.schema import Choice, Comparison, Failure, Memory, Product, Question, Usage

A, B = (Product(name, f"product {name}", "", "Electronics") for name in "ab")
QUESTION = Comparison("q", "a lamp", Memory("red"), (A, B))
SPACE = {"model": "m", "temperature": 1.0}


class Counter:
    """A judge whose every answer is another, so that a replay shows."""

    def __init__(self, fail_after: int | None = None) -> None:
        self.asked: list[Comparison] = []
        self.fail_after = fail_after

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        choices = []
        for comparison in comparisons:
            if self.fail_after is not None and len(self.asked) >= self.fail_after:
                raise JudgeError("the judge went away")
            self.asked.append(comparison)
            number = len(self.asked)
            failure = Failure.invalid if number % 3 == 0 else None
            index = None if failure else 0
            taken = {"usage": Usage(number, 0, 1), "cost": 0.1 * number, "latency": 1 / 3}
            choices.append(Choice(index, failure=failure, **taken))
        return choices


class Certain(Counter):
    def distribution(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        self.asked.extend(comparisons)
        return [Choice(1, probabilities=(1 / 3, 2 / 3)) for _ in comparisons]

    def order(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        return [Choice(1, order=(1, 0)) for _ in comparisons]

    def score(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        return [Choice(1, scores=(0.1, 1e-17)) for _ in comparisons]


def cached(
    path: Path, judge: Counter | None = None, mode: str = "readwrite", **options: int
) -> CachedReranker:
    return CachedReranker(judge, path / "answers.sqlite", mode, SPACE, **options)


def replayed(choices: list[Choice]) -> list[Choice]:
    return [replace(choice, replayed=True) for choice in choices]


def samples(n: int) -> list[Comparison]:
    return [replace(QUESTION, sample=sample) for sample in range(n)]


def test_answers_are_asked_once_and_replayed_exactly(tmp_path: Path) -> None:
    judge = Counter()
    reranker = cached(tmp_path, judge)
    first = reranker.choose(samples(4))
    assert [choice.index for choice in first] == [0, 0, None, 0]  # the invalid one is kept
    assert (reranker.hits, reranker.misses) == (0, 4)
    assert reranker.choose(samples(5)[::-1])[1:] == replayed(first[::-1])
    assert (reranker.hits, reranker.misses, len(judge.asked)) == (4, 5, 5)
    replay = cached(tmp_path, None, "readonly")
    assert replay.choose(samples(4)) == replayed(first)
    assert (replay.hits, replay.misses) == (4, 0)


def test_a_question_repeated_in_a_batch_is_asked_once(tmp_path: Path) -> None:
    judge = Counter()
    first, second = cached(tmp_path, judge).choose([QUESTION, QUESTION])
    assert first == second
    assert len(judge.asked) == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, sample=1),
        replace(QUESTION, vote=1),
        replace(QUESTION, attempt=1),
        replace(QUESTION, query="a desk"),
        replace(QUESTION, query_id="r"),
        replace(QUESTION, memory=Memory("blue")),
        replace(QUESTION, memory=Memory("", "red")),
        replace(QUESTION, candidates=(B, A)),
        replace(QUESTION, candidates=(A, replace(B, description="more"))),
    ],
)
def test_every_part_of_the_question_is_in_the_key(tmp_path: Path, other: Comparison) -> None:
    judge = Counter()
    reranker = cached(tmp_path, judge)
    reranker.choose([QUESTION])
    reranker.choose([other])
    assert judge.asked == [QUESTION, other]


def test_the_key_is_the_sha256_of_the_request(tmp_path: Path) -> None:
    """Recordings are published: a key that comes out otherwise makes them worthless."""

    def sha256(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    products = [sha256('["a", "product a"]'), sha256('["b", "product b. more"]')]
    judge, memory = sha256('{"model":"m","temperature":1.0}'), sha256('["red", ""]')
    request = (
        f'["{judge}", "choose", "q", "a lamp", "{memory}", '
        f'["{products[0]}", "{products[1]}"], [3, 0, 1]]'
    )
    reranker = cached(tmp_path, Counter())
    candidates = (A, replace(B, description="more"))
    reranker.choose([replace(QUESTION, candidates=candidates, sample=3, attempt=1)])
    assert [key for part in reranker.store.rows() for key, _ in part] == [sha256(request)]


def test_flaws_are_not_in_the_key_and_the_namespace_is(tmp_path: Path) -> None:
    judge = Counter()
    reranker = cached(tmp_path, judge)
    reranker.choose([QUESTION])
    reranker.choose([replace(QUESTION, memory=Memory("red", flaws=("repeated",)))])
    assert len(judge.asked) == 1
    other = CachedReranker(judge, reranker.path, "readwrite", {**SPACE, "temperature": 0.5})
    other.choose([QUESTION])
    assert len(judge.asked) == 2


def test_readonly_names_what_is_missing(tmp_path: Path) -> None:
    cached(tmp_path, Counter()).choose(samples(2))
    judge = Counter()
    replay = cached(tmp_path, judge, "readonly")
    message = r"answers.sqlite: no recorded answer for query q, sample 2 \(1 of 3 .*readwrite"
    with pytest.raises(JudgeError, match=message):
        replay.choose(samples(3) * 2)
    assert judge.asked == []
    with pytest.raises(JudgeError, match=r"none.sqlite: no recorded answers there"):
        CachedReranker(None, tmp_path / "none.sqlite", "readonly", SPACE)


def test_refresh_replaces_and_off_passes_through(tmp_path: Path) -> None:
    judge = Counter()
    (first,) = cached(tmp_path, judge).choose([QUESTION])
    (second,) = cached(tmp_path, judge, "refresh").choose([QUESTION])
    (third,) = cached(tmp_path, judge, "off").choose([QUESTION])
    replay = cached(tmp_path, None, "readonly").choose([QUESTION])
    assert [first.usage.input, second.usage.input, third.usage.input] == [1, 2, 3]
    assert replay == replayed([second])


def test_a_refresh_that_fails_gives_no_older_answer(tmp_path: Path) -> None:
    class Away(Counter):
        def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
            return [Choice(None, failure=Failure.timed_out) for _ in comparisons]

    (first,) = cached(tmp_path, Counter()).choose([QUESTION])
    (second,) = cached(tmp_path, Away(), "refresh").choose([QUESTION])
    assert second.failure is Failure.timed_out
    assert cached(tmp_path, None, "readonly").choose([QUESTION]) == replayed([first])


def test_answers_paid_for_outlive_a_crash(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="went away"):
        cached(tmp_path, Counter(fail_after=5), chunk=2).choose(samples(6))
    judge = Counter()
    answers = cached(tmp_path, judge).choose(samples(6))
    assert [choice.usage.input for choice in answers] == [1, 2, 3, 4, 1, 2]
    assert [comparison.sample for comparison in judge.asked] == [4, 5]


@pytest.mark.parametrize("question", list(Question))
def test_every_question_is_recorded_apart(tmp_path: Path, question: Question) -> None:
    reranker = cached(tmp_path, Certain())
    first = getattr(reranker, question)([QUESTION])
    replay = cached(tmp_path, None, "readonly")
    assert getattr(replay, question)([QUESTION]) == replayed(first)
    for other in set(Question) - {question}:
        with pytest.raises(JudgeError, match="no recorded answer for query q"):
            getattr(replay, other)([QUESTION])


def test_the_questions_are_those_of_the_judge(tmp_path: Path) -> None:
    assert cached(tmp_path, Counter()).questions == {Question.choose}
    assert cached(tmp_path, Certain()).questions == set(Question)
    cached(tmp_path, Counter()).choose([QUESTION])
    assert cached(tmp_path, None, "readonly").questions == set(Question)


@pytest.mark.parametrize("failure", list(Failure))
def test_what_was_never_answered_is_asked_again_and_the_rest_is_kept(
    tmp_path: Path, failure: Failure
) -> None:
    class Failing(Counter):
        def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
            self.asked += comparisons
            return [Choice(None, failure=failure) for _ in comparisons]

    judge = Failing()
    for _ in range(2):
        assert cached(tmp_path, judge).choose([QUESTION])[0].failure is failure
    said_something = failure in (Failure.invalid, Failure.refused)
    assert len(judge.asked) == (1 if said_something else 2)


def test_a_judge_that_streams_has_each_answer_recorded_as_it_comes(tmp_path: Path) -> None:
    class Streaming(Counter):
        streams = True

        def choose(self, comparisons: Sequence[Comparison], on_choice=None) -> list[Choice]:
            choices = []
            for place, comparison in enumerate(comparisons):
                choices += super().choose([comparison])
                on_choice(place, choices[-1])
            return choices

    with pytest.raises(JudgeError, match="went away"):
        cached(tmp_path, Streaming(fail_after=5)).choose(samples(6))
    assert len(cached(tmp_path, None, "readonly").choose(samples(5))) == 5


def test_of_two_answers_the_first_recorded_counts(tmp_path: Path) -> None:
    class Late(Counter):
        def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
            cached(tmp_path, Counter()).choose(comparisons)  # another process, meanwhile
            return [Choice(1) for _ in comparisons]

    (choice,) = cached(tmp_path, Late()).choose([QUESTION])
    assert (choice.index, choice.usage.input, choice.replayed) == (0, 1, True)


def test_text_that_is_no_unicode_has_a_key(tmp_path: Path) -> None:
    odd = replace(QUESTION, query="half a pair \ud83d")
    reranker = cached(tmp_path, Counter())
    assert reranker.choose([odd])[0].replayed is False
    assert reranker.choose([odd])[0].replayed is True


def test_settings_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"judge_cache\.mode=rw: choose one of readwrite"):
        cached(tmp_path, Counter(), "rw")
    with pytest.raises(ConfigError, match=r"judge_cache\.mode=refresh needs a judge"):
        cached(tmp_path, None, "refresh")


def test_a_file_that_is_no_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "answers.sqlite").write_text("not a database, whatever its name says" * 100)
    with pytest.raises(JudgeError, match=r"answers.sqlite: not usable as a cache"):
        cached(tmp_path, Counter()).choose([QUESTION])
