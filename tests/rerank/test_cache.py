"""The cache of answers: what is asked, what is replayed, and what a key depends on."""

import multiprocessing
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.cache import CachedReranker
from memrerank.schema import Choice, Comparison, Memory, Product

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
            index = None if number % 3 == 0 else 0
            choices.append(Choice(index, tokens=number, cost=0.1 * number, latency=1 / 3))
        return choices


class Certain(Counter):
    def distribution(self, comparisons: Sequence[Comparison]) -> list[np.ndarray]:
        self.asked.extend(comparisons)
        return [np.array([1 / 3, 2 / 3], dtype=np.float32) for _ in comparisons]


def cached(
    path: Path, judge: Counter | None = None, mode: str = "readwrite", **options: int
) -> CachedReranker:
    return CachedReranker(judge, path / "answers.sqlite", mode, SPACE, **options)


def samples(n: int) -> list[Comparison]:
    return [replace(QUESTION, sample=sample) for sample in range(n)]


def test_answers_are_asked_once_and_replayed_exactly(tmp_path: Path) -> None:
    judge = Counter()
    reranker = cached(tmp_path, judge)
    first = reranker.choose(samples(4))
    assert [choice.index for choice in first] == [0, 0, None, 0]  # the invalid one is kept
    assert (reranker.hits, reranker.misses) == (0, 4)
    assert reranker.choose(samples(5)[::-1])[1:] == first[::-1]
    assert (reranker.hits, reranker.misses, len(judge.asked)) == (4, 5, 5)
    replay = cached(tmp_path, None, "readonly")
    assert replay.choose(samples(4)) == first
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
        replay.choose(samples(3))
    assert judge.asked == []
    with pytest.raises(JudgeError, match=r"none.sqlite: no recorded answers there"):
        CachedReranker(None, tmp_path / "none.sqlite", "readonly", SPACE)


def test_refresh_replaces_and_off_passes_through(tmp_path: Path) -> None:
    judge = Counter()
    (first,) = cached(tmp_path, judge).choose([QUESTION])
    (second,) = cached(tmp_path, judge, "refresh").choose([QUESTION])
    (third,) = cached(tmp_path, judge, "off").choose([QUESTION])
    (replayed,) = cached(tmp_path, None, "readonly").choose([QUESTION])
    assert [first.tokens, second.tokens, third.tokens] == [1, 2, 3]
    assert replayed == second


def test_answers_paid_for_outlive_a_crash(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="went away"):
        cached(tmp_path, Counter(fail_after=5), chunk=2).choose(samples(6))
    judge = Counter()
    answers = cached(tmp_path, judge).choose(samples(6))
    assert [choice.tokens for choice in answers] == [1, 2, 3, 4, 1, 2]
    assert [comparison.sample for comparison in judge.asked] == [4, 5]


def test_distributions_are_recorded_too(tmp_path: Path) -> None:
    judge = Certain()
    reranker = cached(tmp_path, judge)
    (first,) = reranker.distribution([QUESTION])
    (again,) = reranker.distribution([replace(QUESTION, sample=3)])  # samples do not matter
    (replayed,) = cached(tmp_path, None, "readonly").distribution([QUESTION])
    assert len(judge.asked) == 1
    assert first.dtype == replayed.dtype == np.float64
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, replayed)
    np.testing.assert_allclose(first, [1 / 3, 2 / 3], rtol=1e-6)
    reranker.choose([QUESTION])  # a choice is another kind of answer
    assert len(judge.asked) == 2


def test_a_judge_without_distribution_has_none_when_wrapped(tmp_path: Path) -> None:
    assert not hasattr(cached(tmp_path, Counter()), "distribution")
    assert hasattr(cached(tmp_path, Certain()), "distribution")


def test_settings_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"judge_cache\.mode=rw: choose one of readwrite"):
        cached(tmp_path, Counter(), "rw")
    with pytest.raises(ConfigError, match=r"judge_cache\.mode=refresh needs a judge"):
        cached(tmp_path, None, "refresh")


def test_a_file_that_is_no_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "answers.sqlite").write_text("not a database, whatever its name says" * 100)
    with pytest.raises(JudgeError, match=r"answers.sqlite: not usable as a cache"):
        cached(tmp_path, Counter()).choose([QUESTION])


def _record(path: Path, worker: int) -> None:
    reranker = cached(path, Counter())
    for sample in range(10):
        mine = replace(QUESTION, query_id=f"q{worker}", sample=sample)
        reranker.choose([mine, replace(QUESTION, sample=sample)])


def test_several_processes_share_a_new_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_record, args=(tmp_path, i)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with sqlite3.connect(tmp_path / "answers.sqlite") as connection:
        (count,) = connection.execute("SELECT count(*) FROM answers").fetchone()
    assert count == 3 * 10 + 10
