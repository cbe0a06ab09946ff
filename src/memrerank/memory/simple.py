"""The two baselines that need no model: no memory, and the history itself (paper, baselines)."""

from collections.abc import Sequence

from memrerank.schema import History, Memory, Purchase, Target


class NoMemory:
    """The reranker sees the query and the candidates only."""

    def build(self, histories: Sequence[History]) -> list[Memory]:
        """An empty memory each."""
        return [Memory() for _ in histories]


class RawHistory:
    """The purchases themselves in place of a memory, one a line, newest first.

    For `w` the within purchases; for `wc` the cross purchases too, in their own field. Each
    product's text is cut at `max_words` words (paper: 120).
    """

    def __init__(self, target: Target, max_words: int = 120) -> None:
        self.target = target
        self.max_words = max_words

    def build(self, histories: Sequence[History]) -> list[Memory]:
        """One memory per history, in order."""
        return [
            Memory(
                within=self._lines(history.within),
                cross=self._lines(history.cross) if self.target is Target.wc else "",
            )
            for history in histories
        ]

    def _lines(self, purchases: Sequence[Purchase]) -> str:
        """Newest first, so that whatever a reranker cuts off is the oldest."""
        return "\n".join(
            " ".join(purchase.product.text.split()[: self.max_words])
            for purchase in reversed(purchases)
        )
