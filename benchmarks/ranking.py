"""What the ranking algorithms take: calls, rounds, documents shown, and time behind an API.

    python benchmarks/ranking.py
    python benchmarks/ranking.py --wall

The first counts, with a perfect judge, over random orders and over orders like a retriever's. The
second ranks 50 queries through the chat client against a server on this machine that takes 300 ms
for each answer, with 64 calls in flight, and the same queries by setwise heapsort with one call
after the other, as published implementations run it; of those only a few queries are timed, and
the rest is taken to be like them.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from judge_server import running

from memrerank.rerank.algorithms import (
    Algorithm,
    bubblesort,
    forest,
    full_order,
    heapsort,
    knockout,
    pointwise,
)
from memrerank.rerank.asking import Asker
from memrerank.rerank.openai import OpenAIReranker
from memrerank.rerank.ranking import RankingPlan, rank_pools
from memrerank.schema import Memory, Pool, Product, Query, Question, SetwiseReranker

POOL = 100
SET_SIZE = 5
ALGORITHMS = (knockout, forest, full_order, heapsort, bubblesort, pointwise)
SLOPE = 25.0  # places that are worth one standard deviation of the noise, in retriever-like orders


def make_orders(count: int, *, like_a_retriever: bool, seed: int) -> np.ndarray:
    """Hidden ranks of the products in the retriever's order, 0 the best: [count, POOL]."""
    generator = np.random.default_rng(seed)
    worth = generator.normal(size=(count, POOL))
    if like_a_retriever:
        worth -= np.arange(POOL) / SLOPE
    return (-worth).argsort(axis=1).argsort(axis=1)


def take(algorithm: Algorithm, ranks: Sequence[int], top_k: int) -> tuple[int, int, int]:
    """Calls, rounds and documents shown until the exact top, which is checked."""
    rank = {f"p{i}": int(r) for i, r in enumerate(ranks)}
    rounds = algorithm(list(rank), top_k=top_k, set_size=SET_SIZE)
    calls = waits = documents = 0
    answers: dict[Algorithm, Callable[[tuple[str, ...]], object]] = {
        full_order: lambda one: tuple(sorted(one, key=rank.__getitem__)),
        pointwise: lambda one: tuple(-float(rank[product_id]) for product_id in one),
    }
    judge = answers.get(algorithm, lambda one: min(one, key=rank.__getitem__))
    try:
        sets = next(rounds)
        while True:
            calls, waits = calls + len(sets), waits + 1
            documents += sum(map(len, sets))
            sets = rounds.send([judge(one) for one in sets])
    except StopIteration as stop:
        order: list[str] = stop.value
    assert order[:top_k] == sorted(rank, key=rank.__getitem__)[:top_k]
    return calls, waits, documents


def print_counts(orders: int, seed: int) -> None:
    """One row for each algorithm, kind of order and number of places: mean (most)."""
    print("| algorithm | orders | top | calls | rounds | documents |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for like_a_retriever in (False, True):
        drawn = make_orders(orders, like_a_retriever=like_a_retriever, seed=seed)
        for top_k in (10, 5):
            for algorithm in ALGORITHMS:
                found = np.array([take(algorithm, ranks, top_k) for ranks in drawn])
                cells = [f"{m:.1f} ({n})" for m, n in zip(found.mean(0), found.max(0), strict=True)]
                kind = "retriever-like" if like_a_retriever else "random"
                name = algorithm.__name__
                print(f"| {name} | {kind} | {top_k} | {' | '.join(cells)} |", flush=True)


def make_judge(url: str, concurrency: int) -> OpenAIReranker:
    """The product's judge, at a server on this machine."""
    return OpenAIReranker(
        model="m",
        base_url=url,
        api_key_env="",
        prompt="setwise",
        answer="plain",
        logprobs=False,
        seed=None,
        price=None,
        max_completion_tokens=16,
        max_concurrency=concurrency,
        timeout=60.0,
        max_retries=0,
    )


def rank_all(
    queries: int, algorithm: Algorithm, judge: SetwiseReranker, seed: int
) -> tuple[float, float]:
    """Seconds for so many queries ranked together, and calls a query."""
    ranks = make_orders(queries, like_a_retriever=True, seed=seed)
    corpus = {}
    pools, wanted = {}, []
    for q in range(queries):
        ids = [f"q{q}p{i}" for i in range(POOL)]
        for product_id, rank in zip(ids, ranks[q], strict=True):
            corpus[product_id] = Product(
                product_id, f"A useful thing for the home #{rank}", "", "c"
            )
        wanted.append(Query(f"q{q}", "something for the home", "u", ids[0], "c", 1))
        pools[f"q{q}"] = Pool(f"q{q}", "made up", tuple(ids))
    memories = {query.id: Memory("likes useful things") for query in wanted}
    question = Question.order if algorithm is full_order else Question.choose
    plan = RankingPlan(partial(algorithm, top_k=10, set_size=SET_SIZE), question)
    asker = Asker(judge, seed=0, max_reasks=0)
    started = time.perf_counter()
    rankings = rank_pools(wanted, memories, pools, corpus, asker, plan)
    seconds = time.perf_counter() - started
    for ranking, row in zip(rankings, ranks, strict=True):
        best = [f"{ranking.query_id}p{i}" for i in row.argsort()[:10]]
        assert list(ranking.product_ids[:10]) == best
    return seconds, statistics.mean(ranking.calls for ranking in rankings)


def print_wall(queries: int, timed: int, latency_ms: float, concurrency: int, seed: int) -> None:
    """Seconds of each way, and how many times faster than heapsort one call at a time."""
    with running(latency_ms) as url:
        one_by_one, judge = 0.0, make_judge(url, 1)
        for _ in range(timed):
            seconds, calls = rank_all(1, heapsort, judge, seed)
            one_by_one += seconds / timed
        judge.close()
        whole = one_by_one * queries
        print(f"\n{queries} queries, pools of {POOL}, top 10, {latency_ms:.0f} ms an answer\n")
        print("| | calls in flight | calls a query | seconds | times faster |")
        print("| --- | ---: | ---: | ---: | ---: |")
        told = f"{whole:.1f} ({timed} queries timed, times {queries / timed:.1f})"
        print(f"| heapsort, one after the other | 1 | {calls:.1f} | {told} | 1.0 |", flush=True)
        for algorithm in (knockout, forest, full_order):
            judge = make_judge(url, concurrency)
            seconds, calls = rank_all(queries, algorithm, judge, seed)
            judge.close()
            name, faster = algorithm.__name__, whole / seconds
            row = f"| {name} | {concurrency} | {calls:.1f} | {seconds:.1f} | {faster:.1f} |"
            print(row, flush=True)


def main() -> None:
    """Counts, or times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", type=int, default=1000, help="of each kind")
    parser.add_argument("--wall", action="store_true", help="time instead of counting")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--timed", type=int, default=2, help="queries timed one call at a time")
    parser.add_argument("--latency-ms", type=float, default=300.0)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.wall:
        print_wall(
            options.queries, options.timed, options.latency_ms, options.concurrency, options.seed
        )
    else:
        print_counts(options.orders, options.seed)


if __name__ == "__main__":
    main()
