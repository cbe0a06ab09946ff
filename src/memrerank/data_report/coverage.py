"""What each retriever finds of each split: recall, eligible pairs and the instances from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memrerank.data.instances import NEGATIVES, sample_instances
from memrerank.retrieval.pools import recall_at_k
from memrerank.schema import Benchmark, Pool, Query, Split

REPEATED = "instances_with_repeated_negatives"  # as `sample_instances` counts them
CUTOFFS = (1, 5, 10, 20, 50, 100)  # of recall; those up to the size of the pool are told


@dataclass(frozen=True, slots=True)
class Coverage:
    """One split as one retriever sees it."""

    split: Split
    retriever: str
    queries: int
    eligible: int  # pairs that can give instances: the positive and enough others are in the pool
    instances: int | None  # None: none are drawn from this split or this retriever
    repeated: int | None  # instances whose candidates an earlier one of their pair has
    recall: dict[int, float]  # by cut-off; empty without queries


def measure_coverage(
    benchmark: Benchmark,
    retriever: str,
    pools: Mapping[str, Pool],
    *,
    pool_size: int,
    per_pair: Mapping[Split, int],
    seed: int,
) -> list[Coverage]:
    """One row per split.

    Args:
        pools: of all queries, by query id.
        per_pair: instances drawn per eligible pair, of the splits from which any are drawn.
        seed: of the instances; the one that training draws with, so that the counts are its own.
    """
    rows = []
    for split, queries in benchmark.queries.items():
        drawn: dict[str, int] | None = None
        if split in per_pair:
            drawn = sample_instances(
                queries, pools, benchmark.corpus, per_pair=per_pair[split], seed=seed
            ).counts
        rows.append(
            Coverage(
                split=split,
                retriever=retriever,
                queries=len(queries),
                eligible=sum(is_eligible(query, pools[query.id]) for query in queries),
                instances=None if drawn is None else drawn["instances"],
                repeated=None if drawn is None else drawn.get(REPEATED, 0),
                recall=recall_curve(queries, pools, pool_size),
            )
        )
    return rows


def is_eligible(query: Query, pool: Pool) -> bool:
    """Whether the pool holds the positive (paper) and as many others as an instance takes."""
    return query.positive_id in pool.product_ids and len(pool.product_ids) > NEGATIVES


def recall_curve(
    queries: Sequence[Query], pools: Mapping[str, Pool], pool_size: int
) -> dict[int, float]:
    """Recall at `CUTOFFS` within the pool and at its size; empty without queries."""
    if not queries:
        return {}
    cutoffs = sorted({pool_size, *(k for k in CUTOFFS if k <= pool_size)})
    return {k: recall_at_k(pools, queries, k) for k in cutoffs}
