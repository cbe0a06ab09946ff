"""What all ranking algorithms share."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from memrerank.errors import ConfigError

Member = TypeVar("Member")
Sets = list[tuple[str, ...]]
Winners = list[str | None]
Rounds = Generator[Sets, list[Any], list[str]]
Algorithm = Callable[..., Rounds]


def check(ids: Sequence[str], top_k: int, set_size: int) -> None:
    """Refuses what no algorithm can rank.

    Raises:
        ConfigError: `top_k` or `set_size` is too small.
        ValueError: an id is repeated.
    """
    if top_k < 1:
        raise ConfigError(f"ranking.top_k={top_k}: at least one place must be played for")
    if set_size < 2:
        raise ConfigError(f"ranking.set_size={set_size}: a comparison needs 2 candidates")
    if len(set(ids)) != len(ids):
        raise ValueError("a pool holds a product twice")


def positions(ids: Sequence[str]) -> dict[str, int]:
    """Each id's place in the retriever's order."""
    return {product_id: place for place, product_id in enumerate(ids)}


def winner_of(answer: str | None, one: Sequence[str], position: dict[str, int]) -> str:
    """The winner of a set; without a valid answer the candidate that the retriever put first."""
    if answer is None or answer not in one:
        return min(one, key=position.__getitem__)
    return answer


def groups(members: Sequence[Member], size: int) -> list[tuple[Member, ...]]:
    """Cut into sets of `size`; the last may be smaller, down to a lone member."""
    return [tuple(members[start : start + size]) for start in range(0, len(members), size)]
