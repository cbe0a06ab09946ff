"""How judges are asked: orders, repeated questions, and what is counted."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from memrerank.errors import ConfigError
from memrerank.rerank.asking import Asker
from memrerank.schema import Choice, Comparison, Failure, Memory, Product, Question, Usage

PRODUCTS = tuple(Product(f"p{i}", f"product {i}", "", "Toys") for i in range(5))
SCORES = {"p0": 0.1, "p1": 0.5, "p2": 0.2, "p3": 0.15, "p4": 0.05}


def comparison(query_id: str = "q", **changes: int) -> Comparison:
    return replace(Comparison(query_id, "a toy", Memory("likes toys"), PRODUCTS), **changes)


def scores_of(asked: Comparison) -> tuple[float, ...]:
    return tuple(SCORES[product.id] for product in asked.candidates)


class Knowing:
    """Answers all questions by SCORES, each time as `spoil` leaves it; keeps what was asked."""

    def __init__(self, spoil: Callable[[Comparison, Choice], Choice] = lambda _, c: c) -> None:
        self.spoil = spoil
        self.asked: list[Comparison] = []

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        self.asked += comparisons
        return [self.spoil(c, self._answer(c)) for c in comparisons]

    order = score = distribution = choose

    def _answer(self, asked: Comparison) -> Choice:
        scores = scores_of(asked)
        order = tuple(sorted(range(5), key=lambda i: -scores[i]))
        taken = {"usage": Usage(10, 4, 1), "cost": 0.5, "latency": 2.0}
        return Choice(order[0], order, scores, scores, **taken)  # type: ignore[arg-type]


class Picking:
    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        return [Choice(0) for _ in comparisons]


def invalid(choice: Choice) -> Choice:
    return replace(choice, index=None, order=(), scores=(), failure=Failure.invalid)


@pytest.mark.parametrize("question", list(Question))
def test_answers_come_back_as_places_in_the_given_order(question: Question) -> None:
    judge = Knowing()
    asker = Asker(judge, seed=3, max_reasks=0)
    choices = getattr(asker, question)([comparison(f"q{i}") for i in range(20)])
    assert {choice.index for choice in choices} == {1}
    assert {choice.order for choice in choices} == {(1, 2, 3, 0, 4)}
    assert {choice.scores for choice in choices} == {tuple(SCORES.values())}
    assert {choice.probabilities for choice in choices} == {tuple(SCORES.values())}
    assert len({asked.candidates for asked in judge.asked}) > 10


def test_the_order_shown_depends_on_seed_query_products_and_draw_alone() -> None:
    def shown(asked: Comparison, seed: int = 3) -> tuple[Product, ...]:
        judge = Knowing()
        Asker(judge, seed=seed, max_reasks=0).choose([asked])
        return judge.asked[0].candidates

    base = shown(comparison())
    assert shown(replace(comparison(), memory=Memory("other"), query="other")) == base
    assert shown(replace(comparison(), candidates=PRODUCTS[::-1])) == base
    others = [shown(comparison(), seed=4), shown(comparison("q9"))]
    others += [shown(comparison(**{name: 1})) for name in ("sample", "vote", "attempt")]
    assert all(other != base for other in others)
    assert len(set(others)) == len(others)


def test_every_place_is_equally_likely() -> None:
    judge = Knowing()
    Asker(judge, seed=0, max_reasks=0).choose([comparison(f"q{i}") for i in range(2000)])
    places = Counter(asked.candidates.index(PRODUCTS[1]) for asked in judge.asked)
    assert all(340 < places[place] < 460 for place in range(5))  # 400, 3.4 standard deviations


def test_an_invalid_answer_is_asked_again_in_a_fresh_order() -> None:
    judge = Knowing(lambda c, choice: invalid(choice) if c.attempt < 2 else choice)
    asker = Asker(judge, seed=3, max_reasks=3)
    (choice,) = asker.choose([comparison(sample=4)])
    assert choice.index == 1
    assert choice.calls == 3
    assert (choice.usage, choice.cost, choice.latency) == (Usage(30, 12, 3), 1.5, 6.0)
    assert [(c.sample, c.attempt) for c in judge.asked] == [(4, 0), (4, 1), (4, 2)]
    assert len({c.candidates for c in judge.asked}) == 3
    metrics = asker.metrics()
    assert metrics["judge/evaluate/answers"] == 3
    assert metrics["judge/evaluate/invalid_rate"] == pytest.approx(2 / 3)
    assert metrics["judge/evaluate/reasked_rate"] == pytest.approx(2 / 3)
    assert metrics["judge/evaluate/unanswered"] == 0


def test_only_the_invalid_ones_are_asked_again_and_their_places_kept() -> None:
    wrong = {"q1", "q3"}
    judge = Knowing(
        lambda c, choice: invalid(choice) if c.query_id in wrong and not c.attempt else choice
    )
    choices = Asker(judge, seed=3, max_reasks=1).choose([comparison(f"q{i}") for i in range(5)])
    assert [choice.calls for choice in choices] == [1, 2, 1, 2, 1]
    assert {choice.index for choice in choices} == {1}
    assert [c.query_id for c in judge.asked[5:]] == ["q1", "q3"]


def test_an_answer_that_stays_invalid_is_none() -> None:
    asker = Asker(Knowing(lambda c, choice: invalid(choice)), seed=3, max_reasks=2)
    (choice,) = asker.choose([comparison()])
    assert (choice.index, choice.failure, choice.calls) == (None, Failure.invalid, 3)
    assert asker.metrics()["judge/evaluate/unanswered"] == 1


@pytest.mark.parametrize("failure", [f for f in Failure if f is not Failure.invalid])
def test_other_failures_are_not_asked_again(failure: Failure) -> None:
    judge = Knowing(lambda c, choice: replace(invalid(choice), failure=failure))
    asker = Asker(judge, seed=3, max_reasks=2)
    (choice,) = asker.choose([comparison()])
    assert (choice.index, choice.failure, choice.calls) == (None, failure, 1)
    metrics = asker.metrics()
    assert metrics[f"judge/evaluate/{failure.value}_rate"] == 1
    assert metrics["judge/evaluate/unanswered"] == 1


@pytest.mark.parametrize("index", [-1, 5])
def test_an_index_that_is_no_candidate_is_invalid(index: int) -> None:
    asker = Asker(Knowing(lambda c, choice: replace(choice, index=index)), seed=3, max_reasks=0)
    (choice,) = asker.choose([comparison()])
    assert (choice.index, choice.failure) == (None, Failure.invalid)


def test_the_questions_are_those_of_the_judge() -> None:
    assert Asker(Picking(), seed=0, max_reasks=0).questions == {Question.choose}
    assert Asker(Knowing(), seed=0, max_reasks=0).questions == set(Question)


def test_negative_reasks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"judging.max_reasks=-1"):
        Asker(Picking(), seed=0, max_reasks=-1)


def test_nothing_asked_is_nothing_counted() -> None:
    asker = Asker(Knowing(), seed=0, max_reasks=1)
    assert asker.choose([]) == []
    assert asker.metrics()["judge/evaluate/answers"] == 0


def test_stages_are_counted_apart_and_survive_a_restart() -> None:
    asker = Asker(Picking(), seed=0, max_reasks=0, stage="train")
    asker.choose([comparison(f"q{i}") for i in range(3)])
    with asker.during("dev"):
        asker.choose([comparison()])
    asker.choose([comparison("q9")])
    metrics = asker.metrics()
    assert metrics["judge/train/answers"] == 4
    assert metrics["judge/dev/answers"] == 1
    again = Asker(Picking(), seed=0, max_reasks=0, stage="train")
    again.restore(asker.state())
    assert again.metrics() == metrics
    again.choose([comparison("q10")])
    assert again.metrics()["judge/train/answers"] == 5


def test_the_position_bias_is_the_share_of_wins_by_place_shown() -> None:
    first = Asker(Picking(), seed=0, max_reasks=0)  # whatever is shown first
    first.choose([comparison(f"q{i}") for i in range(10)])
    first.choose([replace(comparison(), candidates=PRODUCTS[:2])])  # another size counts apart
    assert first.tally.place_shares("evaluate") == [1.0, 0, 0, 0, 0]
    assert first.metrics()["judge/evaluate/place_1"] == 1.0
    assert first.metrics()["judge/evaluate/place_5"] == 0.0
    fair = Asker(Knowing(), seed=0, max_reasks=0)
    fair.choose([comparison(f"q{i}") for i in range(2000)])
    assert all(abs(share - 0.2) < 0.04 for share in fair.tally.place_shares("evaluate"))
    assert Asker(Knowing(), seed=0, max_reasks=0).tally.place_shares("evaluate") == []


def test_replayed_answers_are_told() -> None:
    asker = Asker(Knowing(lambda _, c: replace(c, replayed=True)), seed=0, max_reasks=0)
    asker.choose([comparison()])
    assert asker.metrics()["judge/evaluate/replayed_rate"] == 1.0
