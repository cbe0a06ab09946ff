"""Dev metrics with a scripted judge: every number is worked out by hand."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from memrerank.grpo.dev import DevEvaluator
from memrerank.rerank.algorithms import knockout
from memrerank.rerank.asking import Asker
from memrerank.rerank.ranking import RankingPlan
from memrerank.schema import (
    Choice,
    Comparison,
    History,
    Pool,
    Product,
    Query,
    Rewards,
    Rollout,
    RolloutGroup,
    SetwiseInstance,
    Target,
)

NAN = float("nan")
IDS = "abcdefg"
CORPUS = {id: Product(id, id, "", "Electronics") for id in IDS}
QUERIES = [Query(f"q{p}", "x", "u", p, "Electronics", 9) for p in "af"]  # bought a, bought f


class Alphabetical:
    """Chooses what the memory names; otherwise the first in the alphabet."""

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        return [Choice(self._pick(one)) for one in comparisons]

    def _pick(self, one: Comparison) -> int:
        named = set(one.memory.text.split())
        ids = [product.id for product in one.candidates]
        return min(range(len(ids)), key=lambda i: (ids[i] not in named, ids[i]))


def group(memory: str) -> RolloutGroup:
    text = f"<within_category>{memory}</within_category>"
    return RolloutGroup((1,), (Rollout((1,), (0.0,), text, truncated=False),))


def instance(query_id: str, number: int) -> SetwiseInstance:
    return SetwiseInstance(f"{query_id}/{number}", query_id, "bm25", tuple(CORPUS.values())[:5], 0)


def pay(
    values: dict[str, tuple[float, float]],
) -> Callable[[Sequence[RolloutGroup]], Rewards]:
    """A reward callback that gives (reward, utility) by instance id."""

    def reward(groups: Sequence[RolloutGroup]) -> Rewards:
        pairs = np.array([values[g.case.instance.id] for g in groups if g.case])  # [groups, 2]
        return Rewards(pairs[:, :1], {"utility": pairs[:, 1:]})

    return reward


def evaluator(values: dict[str, tuple[float, float]]) -> DevEvaluator:
    instances = [instance(*id.split("/")) for id in values]  # type: ignore[arg-type]
    return DevEvaluator(
        queries=QUERIES,
        histories={query.id: History("u", "Electronics", (), ()) for query in QUERIES},
        pools={query.id: Pool(query.id, "bm25", tuple(IDS)) for query in QUERIES},
        corpus=CORPUS,
        instances=instances,
        reranker=Asker(Alphabetical(), seed=0, max_reasks=0),
        plan=RankingPlan(partial(knockout, top_k=7, set_size=5)),
        reward=pay(values),
        target=Target.w,
    )


GROUPS = {"qa": group("c"), "qf": group("likes nothing")}


def test_ranking_metrics() -> None:
    metrics = evaluator({}).score(GROUPS)
    # qa: c a b ..., so a is second. qf: a b c d e f, so f is sixth.
    assert metrics == {
        "dev/mrr_at_10": pytest.approx((1 / 2 + 1 / 6) / 2),
        "dev/mrr_at_5": pytest.approx((1 / 2 + 0) / 2),
        "dev/memory_words": 1.5,
    }


def test_a_querys_instances_weigh_as_one() -> None:
    metrics = evaluator(
        {"qa/0": (0.9, 0.8), "qa/1": (0.5, 0.4), "qa/2": (0.1, 0.0), "qf/0": (0.1, 0.2)}
    ).score(GROUPS)
    assert metrics["dev/reward"] == pytest.approx((0.5 + 0.1) / 2)
    assert metrics["dev/accuracy"] == pytest.approx((0.4 + 0.2) / 2)


def test_failed_rewards_are_left_out() -> None:
    metrics = evaluator({"qa/0": (NAN, NAN), "qa/1": (0.5, 0.4), "qf/0": (0.1, 0.2)}).score(GROUPS)
    assert metrics["dev/reward"] == pytest.approx((0.5 + 0.1) / 2)
    assert metrics["dev/accuracy"] == pytest.approx((0.4 + 0.2) / 2)


@pytest.mark.filterwarnings("error")
def test_a_query_whose_rewards_all_failed_is_left_out() -> None:
    metrics = evaluator({"qa/0": (NAN, NAN), "qf/0": (0.1, 0.2)}).score(GROUPS)
    assert metrics["dev/reward"] == pytest.approx(0.1)
    assert metrics["dev/accuracy"] == pytest.approx(0.2)


@pytest.mark.filterwarnings("error")
def test_without_any_reward_dev_has_none_and_still_ranks() -> None:
    metrics = evaluator({"qa/0": (NAN, NAN)}).score(GROUPS)
    assert np.isnan([metrics["dev/reward"], metrics["dev/accuracy"]]).all()
    assert metrics["dev/mrr_at_10"] > 0


def test_only_the_queries_that_were_asked_are_judged() -> None:
    metrics = evaluator({"qa/0": (0.9, 0.8), "qz/0": (0.1, 0.1)}).score(GROUPS)
    assert metrics["dev/reward"] == pytest.approx(0.9)
