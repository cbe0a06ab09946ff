"""Setwise instances: the positive and four harder and easier negatives out of one pool."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from memrerank.errors import ConfigError
from memrerank.schema import Pool, Product, Query, SetwiseInstance
from memrerank.seeding import numpy_generator

# (first rank, last rank, negatives), from the paper's section on data. Ranks are those that the
# retriever gave, from 1; the positive keeps its rank and is never drawn.
NEGATIVE_BANDS = ((1, 20, 2), (21, 50, 1), (51, 100, 1))
NEGATIVES = sum(number for _, _, number in NEGATIVE_BANDS)
REDRAWS = 20  # tries to get negatives that no earlier instance of the pair has (our choice)


class InstanceSample(NamedTuple):
    """Instances, and how many pairs and instances there were by kind."""

    instances: list[SetwiseInstance]
    counts: dict[str, int]


def sample_instances(
    queries: Sequence[Query],
    pools: Mapping[str, Pool],
    corpus: Mapping[str, Product],
    *,
    per_pair: int,
    seed: int,
) -> InstanceSample:
    """Draws `per_pair` instances of every eligible (query, retriever) pair.

    A pair is eligible when its pool holds the positive (paper) and at least four other products.
    The paper draws 8 instances a pair for train and 5 for dev.

    Args:
        pools: one retriever's pools, by query id.
        corpus: the products that the pools rank, by id.

    Raises:
        ConfigError: `per_pair` is below 1, or a query has no pool.
    """
    if per_pair < 1:
        raise ConfigError(f"instances per pair = {per_pair} will not do; set it to 1 or more")
    instances: list[SetwiseInstance] = []
    counts: Counter[str] = Counter()
    for query in queries:
        if query.id not in pools:
            raise ConfigError(f"query {query.id} has no pool; retrieve the pools of all queries")
        pool = pools[query.id]
        if query.positive_id not in pool.product_ids:
            counts["pairs_dropped_positive_not_in_pool"] += 1
        elif len(pool.product_ids) <= NEGATIVES:
            counts["pairs_dropped_pool_too_small"] += 1
        else:
            drawn = _sample_pair(query, pool, corpus, per_pair, seed)
            counts["pairs_eligible"] += 1
            counts["instances_with_repeated_negatives"] += per_pair - len(
                {frozenset(product.id for product in one.candidates) for one in drawn}
            )
            instances.extend(drawn)
    counts["instances"] = len(instances)
    return InstanceSample(instances, dict(counts))


def _sample_pair(
    query: Query, pool: Pool, corpus: Mapping[str, Product], number: int, seed: int
) -> list[SetwiseInstance]:
    instances = []
    seen: set[frozenset[str]] = set()
    for index in range(number):
        generator = numpy_generator(seed, "instance", query.id, pool.retriever, index)
        for _ in range(REDRAWS):
            negatives = draw_negatives(pool.product_ids, query.positive_id, generator)
            if frozenset(negatives) not in seen:
                break
        seen.add(frozenset(negatives))
        ids = [query.positive_id, *negatives]
        order = generator.permutation(len(ids))
        instances.append(
            SetwiseInstance(
                id=f"{query.id}/{pool.retriever}/{index}",
                query_id=query.id,
                retriever=pool.retriever,
                candidates=tuple(corpus[ids[place]] for place in order),
                positive=int(np.flatnonzero(order == 0)[0]),
            )
        )
    return instances


def draw_negatives(
    ranked: Sequence[str], positive_id: str, generator: np.random.Generator
) -> list[str]:
    """Four products of a ranked pool by `NEGATIVE_BANDS`, none of them the positive.

    Where a short pool leaves a band with too few products, the others come from anywhere in it.
    """
    drawn: list[str] = []
    for first, last, number in NEGATIVE_BANDS:
        band = [id for id in ranked[first - 1 : last] if id != positive_id]
        drawn += _draw(band, number, generator)
    rest = [id for id in ranked if id != positive_id and id not in drawn]
    return drawn + _draw(rest, NEGATIVES - len(drawn), generator)


def _draw(ids: Sequence[str], number: int, generator: np.random.Generator) -> list[str]:
    places = generator.choice(len(ids), size=min(number, len(ids)), replace=False)
    return [ids[place] for place in places]
