"""The one driver of all ranking algorithms: every round of every query is one batch for the
judge, so that an API answers it concurrently and a local model in full batches."""

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from memrerank.errors import ConfigError, DataError
from memrerank.rerank.algorithms import Algorithm, Rounds, Sets
from memrerank.schema import (
    Choice,
    Comparison,
    Memory,
    Pool,
    Product,
    Query,
    Question,
    Ranking,
    SetwiseReranker,
    answers,
)


@dataclass(frozen=True, slots=True)
class RankingPlan:
    """An algorithm, and how its comparisons are put to the judge."""

    algorithm: Algorithm
    question: Question = Question.choose
    votes: int = 1  # orders in which each set is asked; the majority counts

    def check(self, judge: object, *, stop_at_positive: bool = False) -> None:
        """Refuses what cannot work before anything is asked.

        Raises:
            ConfigError: the judge cannot answer the algorithm's question, `votes` does not fit,
                or the algorithm cannot stop early.
        """
        if not answers(judge, self.question):
            raise ConfigError(
                f"this ranking asks the judge to {self.question.value}, which it cannot; choose "
                "ranking=knockout or forest, which any judge can, or another reranker"
            )
        if self.votes < 1 or (self.votes > 1 and self.question is not Question.choose):
            raise ConfigError(
                f"ranking.votes={self.votes}: use 1 or more, and 1 where the judge is asked to "
                f"{Question.order.value} or {Question.score.value}"
            )
        if stop_at_positive and "until" not in inspect.signature(self.algorithm).parameters:
            raise ConfigError(
                "eval.stop_at_positive: this ranking algorithm does not take `until`; set "
                "eval.stop_at_positive=false"
            )


def rank_pools(
    queries: Sequence[Query],
    memories: Mapping[str, Memory],  # by query id
    pools: Mapping[str, Pool],  # by query id
    corpus: Mapping[str, Product],
    judge: SetwiseReranker,
    plan: RankingPlan,
    *,
    stop_at_positive: bool = False,
    progress: bool = False,
) -> list[Ranking]:
    """Ranks each query's pool; one Ranking per query, in order.

    A set without a valid answer counts as `invalid` and is settled by the algorithm, in the
    retriever's order. With several votes the product that most of them name wins, and of equals
    the one that the retriever put first. `calls` counts every question, repeated ones included;
    `rounds` the batches that had to wait for one another.

    Args:
        judge: shows candidates in whatever order it likes and asks invalid answers again
            (`memrerank.rerank.asking`).
        stop_at_positive: a query's ranking ends once its positive has its place. Measures that
            look at the positive alone stay the same; the order after it means nothing.

    Raises:
        ConfigError: plan and judge do not go together.
        DataError: a query has no memory or pool, or a pool holds a product not in the corpus.
    """
    plan.check(judge, stop_at_positive=stop_at_positive)
    tasks = [_task(q, memories, pools, corpus, plan.algorithm, stop_at_positive) for q in queries]
    with tqdm(desc="ranking", unit=" calls", disable=not progress) as bar:
        while active := [task for task in tasks if task.sets]:
            bar.set_postfix_str(f"{len(tasks) - len(active)}/{len(tasks)} queries", refresh=False)
            asked = sum(task.calls for task in active)
            _play_round(active, corpus, judge, plan)
            bar.update(sum(task.calls for task in active) - asked)
    return [
        Ranking(task.query.id, tuple(task.order), task.calls, task.rounds, task.invalid)
        for task in tasks
    ]


@dataclass(slots=True)
class _Task:
    """One query on its way to a ranking."""

    query: Query
    memory: Memory
    pool: tuple[str, ...]  # product ids in the retriever's order
    generator: Rounds
    sets: Sets = field(default_factory=list)  # of the round to be played; empty when done
    order: list[str] = field(default_factory=list)
    calls: int = 0
    rounds: int = 0
    invalid: int = 0

    def advance(self, results: list[Any] | None) -> None:
        """Hands the generator the results of its round (None: its start) and takes the next."""
        try:
            self.sets = next(self.generator) if results is None else self.generator.send(results)
        except StopIteration as stop:
            self.sets, self.order = [], stop.value


def _task(
    query: Query,
    memories: Mapping[str, Memory],
    pools: Mapping[str, Pool],
    corpus: Mapping[str, Product],
    algorithm: Algorithm,
    stop_at_positive: bool,
) -> _Task:
    for name, mapping in (("memory", memories), ("pool", pools)):
        if query.id not in mapping:
            raise DataError(f"query {query.id} has no {name}; build one for every ranked query")
    ids = pools[query.id].product_ids
    unknown = [product_id for product_id in ids if product_id not in corpus]
    if unknown:
        raise DataError(
            f"the pool of query {query.id} holds product {unknown[0]}, which the corpus lacks "
            f"({len(unknown)} such); make the pools anew for this benchmark"
        )
    early = {"until": query.positive_id} if stop_at_positive else {}
    task = _Task(query, memories[query.id], ids, algorithm(ids, **early))
    task.advance(None)
    return task


def _play_round(
    tasks: Sequence[_Task], corpus: Mapping[str, Product], judge: SetwiseReranker, plan: RankingPlan
) -> None:
    """Has one round of every task judged, in one batch, and advances the tasks."""
    comparisons = [
        _comparison(task, ids, corpus, vote)
        for task in tasks
        for ids in task.sets
        for vote in range(plan.votes)
    ]
    choices = iter(getattr(judge, plan.question)(comparisons))
    for task in tasks:
        votes = [[next(choices) for _ in range(plan.votes)] for _ in task.sets]  # [sets][votes]
        results = [
            _result(ids, row, plan.question, task.pool)
            for ids, row in zip(task.sets, votes, strict=True)
        ]
        task.calls += sum(choice.calls for row in votes for choice in row)
        task.rounds += max(choice.calls for row in votes for choice in row)
        task.invalid += sum(result is None for result in results)
        task.advance(results)


def _result(
    ids: tuple[str, ...], choices: Sequence[Choice], question: Question, pool: tuple[str, ...]
) -> Any:
    """What the algorithm is told of a set, in product ids; None: no valid answer."""
    valid = [choice for choice in choices if choice.index is not None]
    if not valid:
        return None
    if question is Question.order:
        return tuple(ids[place] for place in valid[0].order)
    if question is Question.score:
        return valid[0].scores
    wins = Counter(choice.index for choice in valid if choice.index is not None)
    most = max(wins.values())
    return min((ids[index] for index, count in wins.items() if count == most), key=pool.index)


def _comparison(
    task: _Task, ids: tuple[str, ...], corpus: Mapping[str, Product], vote: int
) -> Comparison:
    return Comparison(
        query_id=task.query.id,
        query=task.query.text,
        memory=task.memory,
        candidates=tuple(corpus[product_id] for product_id in ids),
        vote=vote,
    )
