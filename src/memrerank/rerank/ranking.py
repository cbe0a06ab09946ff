"""The one driver of all ranking algorithms: every round of every query is one batch for the
judge, so that an API answers it concurrently and a local model in full batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from memrerank.errors import DataError
from memrerank.rerank.algorithms import Algorithm, Rounds, Sets, Winners
from memrerank.schema import (
    Comparison,
    Memory,
    Pool,
    Product,
    Query,
    Ranking,
    SetwiseReranker,
)
from memrerank.seeding import numpy_generator


def rank_pools(
    queries: Sequence[Query],
    memories: Mapping[str, Memory],  # by query id
    pools: Mapping[str, Pool],  # by query id
    corpus: Mapping[str, Product],
    reranker: SetwiseReranker,
    algorithm: Algorithm,
    *,
    seed: int,
    max_reasks: int = 1,
    progress: bool = False,
) -> list[Ranking]:
    """Ranks each query's pool; one Ranking per query, in order.

    The candidates of a set are shown in an order drawn from (seed, query id, the set), the same
    for every memory and method, so that two methods differ by their memories alone. An invalid
    answer is asked for again, up to `max_reasks` times, in a new order and as a new sample;
    after that the set goes to its first product in the retriever's order and counts as
    `invalid`. `calls` counts every question asked, `rounds` the batches that had to wait for one
    another, repeated questions included.

    Raises:
        DataError: a query has no memory or pool, or a pool holds a product not in the corpus.
    """
    tasks = [_task(query, memories, pools, corpus, algorithm) for query in queries]
    with tqdm(desc="ranking", unit=" calls", disable=not progress) as bar:
        while active := [task for task in tasks if task.sets]:
            bar.set_postfix_str(f"{len(tasks) - len(active)}/{len(tasks)} queries", refresh=False)
            asked = sum(task.calls for task in active)
            _play_round(active, corpus, reranker, seed, max_reasks)
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
    generator: Rounds
    sets: Sets = field(default_factory=list)  # of the round to be played; empty when done
    order: list[str] = field(default_factory=list)
    calls: int = 0
    rounds: int = 0
    invalid: int = 0

    def advance(self, winners: Winners | None) -> None:
        """Hands the generator the winners of its round (None: its start) and takes the next."""
        try:
            self.sets = next(self.generator) if winners is None else self.generator.send(winners)
        except StopIteration as stop:
            self.sets, self.order = [], stop.value


def _task(
    query: Query,
    memories: Mapping[str, Memory],
    pools: Mapping[str, Pool],
    corpus: Mapping[str, Product],
    algorithm: Algorithm,
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
    task = _Task(query, memories[query.id], algorithm(ids))
    task.advance(None)
    return task


def _play_round(
    tasks: Sequence[_Task],
    corpus: Mapping[str, Product],
    reranker: SetwiseReranker,
    seed: int,
    max_reasks: int,
) -> None:
    """Has one round of every task judged, in one batch per attempt, and advances the tasks."""
    winners: list[Winners] = [[None] * len(task.sets) for task in tasks]
    open_sets = [(t, s) for t, task in enumerate(tasks) for s in range(len(task.sets))]
    for attempt in range(1 + max_reasks):
        comparisons = [
            _comparison(tasks[t], tasks[t].sets[s], corpus, seed, attempt) for t, s in open_sets
        ]
        for t in {t for t, _ in open_sets}:
            tasks[t].rounds += 1
        choices = reranker.choose(comparisons) if comparisons else []
        for (t, s), comparison, choice in zip(open_sets, comparisons, choices, strict=True):
            tasks[t].calls += 1
            if choice.index is not None and choice.index in range(len(comparison.candidates)):
                winners[t][s] = comparison.candidates[choice.index].id
        open_sets = [(t, s) for t, s in open_sets if winners[t][s] is None]
    for t, _ in open_sets:
        tasks[t].invalid += 1
    for task, answers in zip(tasks, winners, strict=True):
        task.advance(answers)


def _comparison(
    task: _Task, candidates: tuple[str, ...], corpus: Mapping[str, Product], seed: int, attempt: int
) -> Comparison:
    """The question of one set, its candidates in an order that depends on nothing but the set."""
    ids = sorted(candidates)
    generator = numpy_generator(seed, "ranking", task.query.id, *ids, attempt)
    return Comparison(
        query_id=task.query.id,
        query=task.query.text,
        memory=task.memory,
        candidates=tuple(corpus[ids[i]] for i in generator.permutation(len(ids))),
        sample=attempt,
    )
