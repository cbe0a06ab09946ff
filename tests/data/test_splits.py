"""split_by_user: whole users, sizes near 75:15:10, one seed one split."""

import itertools

import numpy as np
import pytest

from memrerank.data.splits import SPLIT_SHARES, split_by_user
from memrerank.schema import Query, Split


def queries_of(sizes: list[int]) -> list[Query]:
    """`sizes[u]` queries of user u."""
    return [
        Query(f"{user:03}-{number}", "a pen", f"user{user}", "p", "Pens", 1)
        for user, size in enumerate(sizes)
        for number in range(size)
    ]


def sizes_of(splits: dict[Split, tuple[Query, ...]]) -> tuple[int, int, int]:
    return len(splits[Split.train]), len(splits[Split.dev]), len(splits[Split.test])


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        (1, (1, 0, 0)),
        (2, (2, 0, 0)),
        (3, (1, 1, 1)),
        (4, (2, 1, 1)),
        (5, (3, 1, 1)),
        (20, (15, 3, 2)),
        (100, (75, 15, 10)),
        (400, (300, 60, 40)),
    ],
)
def test_users_of_one_query_are_split_75_15_10(users, expected):
    assert sizes_of(split_by_user(queries_of([1] * users), seed=3)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_no_user_is_in_two_splits_and_no_query_is_lost(seed):
    sizes = np.random.default_rng(seed).integers(1, 6, size=40).tolist()
    queries = queries_of(sizes)
    splits = split_by_user(queries, seed)
    users = {split: {query.user_id for query in members} for split, members in splits.items()}
    assert all(not users[a] & users[b] for a, b in itertools.combinations(Split, 2))
    assert sorted(query.id for members in splits.values() for query in members) == [
        query.id for query in queries
    ]
    for split, share in SPLIT_SHARES.items():
        assert abs(len(splits[split]) - share * len(queries)) < max(sizes)


def test_sizes_are_the_nearest_that_whole_users_allow():
    sizes = [5, 4, 3, 2, 2, 2, 1, 1]  # 20 queries: 15, 3, 2
    queries = queries_of(sizes)
    assert sizes_of(split_by_user(queries, seed=0)) == (15, 3, 2)


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_queries():
    queries = queries_of([1] * 40)
    first = split_by_user(queries, seed=1)
    assert split_by_user(queries[::-1], seed=1) == first
    assert split_by_user(queries, seed=2) != first
    assert list(first[Split.dev]) == sorted(first[Split.dev], key=lambda query: query.id)
