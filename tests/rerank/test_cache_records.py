"""What a judge's answer looks like on record, and what is none."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from test_cache import QUESTION, Counter, cached, replayed

from memrerank.errors import JudgeError
from memrerank.schema import Choice, Comparison, Failure, Usage


class Fixed(Counter):
    """A judge that gives one answer to every question."""

    def __init__(self, choice: Choice) -> None:
        super().__init__()
        self.choice = choice

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        return [self.choice for _ in comparisons]


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (Choice(0, scores=(1.0, float("nan"))), "not finite"),
        (Choice(0, probabilities=(float("inf"), 0.0)), "not finite"),
        (Choice(0, scores=(1.0,)), "1 numbers are given for 2 products"),
        (Choice(0, order=(0, 0)), "none of 2 products"),
        (Choice(0, failure=Failure.invalid), "either an index or a failure"),
    ],
)
def test_what_is_no_answer_is_not_recorded(tmp_path: Path, choice: Choice, told: str) -> None:
    reranker = cached(tmp_path, Fixed(choice))
    with pytest.raises(JudgeError, match=f"judge m: .* choose for query q cannot be .*{told}"):
        reranker.choose([QUESTION])
    assert list(reranker.store.rows()) == []


def test_numbers_of_numpy_are_recorded_as_they_are(tmp_path: Path) -> None:
    given = np.array([0.1, 0.9])
    choice = Choice(np.int64(1), tuple(given.argsort()), tuple(given), usage=Usage(np.int32(3)))
    cached(tmp_path, Fixed(choice)).choose([QUESTION])
    expected = Choice(1, (0, 1), (0.1, 0.9), usage=Usage(3), replayed=True)
    assert cached(tmp_path, None, "readonly").choose([QUESTION]) == [expected]


def test_answers_that_name_no_candidate_replay_as_they_were(tmp_path: Path) -> None:
    for number, choice in enumerate((Choice(7), Choice(None, failure=Failure.invalid))):
        cached(tmp_path / f"{number}", Fixed(choice)).choose([QUESTION])
        replay = cached(tmp_path / f"{number}", None, "readonly")
        assert replay.choose([QUESTION]) == replayed([choice])
    cached(tmp_path / "bare", Fixed(Choice(None))).choose([QUESTION])
    replay = cached(tmp_path / "bare", None, "readonly")
    assert replay.choose([QUESTION]) == replayed([Choice(None, failure=Failure.invalid)])


WHOLE = (
    '{"index": 1, "usage": [4, 0, 1], "cost": 0.5, "latency": 2.0, '
    '"about": {"products": ["a", "b"]}}'
)


def test_a_whole_record_is_read(tmp_path: Path) -> None:
    reranker = cached(tmp_path, Counter())
    reranker.choose([QUESTION])
    with sqlite3.connect(reranker.path) as connection:
        connection.execute("UPDATE answers SET value = ?", (WHOLE,))
    connection.close()
    (choice,) = cached(tmp_path, None, "readonly").choose([QUESTION])
    assert choice == Choice(1, usage=Usage(4, 0, 1), cost=0.5, latency=2.0, replayed=True)


@pytest.mark.parametrize(
    "value",
    [
        "{",
        "[]",
        '"text"',
        '{"index": null}',
        '{"index": 1, "failure": "invalid"}',
        WHOLE.replace("1,", '"1",', 1),
        WHOLE.replace("[4, 0, 1]", "[4, 0]"),
        WHOLE.replace("[4, 0, 1]", "4"),
        WHOLE.replace("0.5", '"0.5"'),
        WHOLE.replace('"about"', '"above"'),
        WHOLE.replace("1,", 'null, "failure": "tired",', 1),
        WHOLE.replace("1,", '1, "order": [1],', 1),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, value: str) -> None:
    reranker = cached(tmp_path, Counter())
    reranker.choose([QUESTION])
    with sqlite3.connect(reranker.path) as connection:
        connection.execute("UPDATE answers SET value = ?", (value,))
    connection.close()
    with pytest.raises(JudgeError, match=r"answers.sqlite: the record [0-9a-f]{16}\.\.\. is"):
        cached(tmp_path, None, "readonly").choose([QUESTION])
