"""Train, dev and test: by user, so that no shopper is in two of them."""

from collections.abc import Sequence

from memrerank.schema import Query, Split
from memrerank.seeding import numpy_generator

SPLIT_SHARES = {Split.train: 0.75, Split.dev: 0.15, Split.test: 0.10}  # paper: 75:15:10


def split_by_user(queries: Sequence[Query], seed: int) -> dict[Split, tuple[Query, ...]]:
    """Splits queries 75:15:10 so that no user is in two splits; sorted by id in each.

    Users come in shuffled order, those with most queries first, and each goes to the split that
    lacks most of its share. Where there are three users or more, dev and test aim at one query
    at least.
    """
    by_user: dict[str, list[Query]] = {}
    for query in sorted(queries, key=lambda query: query.id):
        by_user.setdefault(query.user_id, []).append(query)
    users = sorted(by_user)
    numpy_generator(seed, "split").shuffle(users)
    users.sort(key=lambda user: -len(by_user[user]))  # stable: shuffled among equals
    least = 1.0 if len(users) >= len(SPLIT_SHARES) else 0.0
    lacking = {split: max(least, share * len(queries)) for split, share in SPLIT_SHARES.items()}
    lacking[Split.train] = len(queries) - lacking[Split.dev] - lacking[Split.test]
    splits: dict[Split, list[Query]] = {split: [] for split in Split}
    for user in users:
        split = max(Split, key=lambda split: round(lacking[split], 9))
        splits[split].extend(by_user[user])
        lacking[split] -= len(by_user[user])
    return {
        split: tuple(sorted(members, key=lambda query: query.id))
        for split, members in splits.items()
    }
