"""The default judge: a noisy chooser by similarity to the query and to the memory."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from memrerank.errors import ConfigError
from memrerank.rerank.drawing import ScoreReranker
from memrerank.retrieval.encoder import SentenceEncoder
from memrerank.schema import Comparison

CACHED_VECTORS = 50_000  # of each kind; at 384 float32 numbers each about 80 MB
COMPARISONS_AT_ONCE = 4_096  # bounds the gathered candidates to about 30 MB at 384 numbers


class EmbeddingReranker(ScoreReranker):
    """A setwise judge made of a sentence encoder.

    The score of a candidate is `cos(query, candidate) + memory_weight * cos(memory, candidate)`,
    and the choice is drawn from a softmax of the scores at `temperature`; an empty memory adds
    nothing. Queries go through the encoder's query template, memories and candidates do not.

    A memory is read whole: it is cut into its lines, and a line that does not fit the encoder's
    window into pieces that do; the memory's vector is the mean of theirs, normalised again. A
    line therefore weighs the same however long it is, and so do the two fields of a wc memory.

    Args:
        encoder: makes the vectors; those of recent texts are kept.
        memory_weight: weight of the memory's similarity against the query's; 0 ignores it.
        temperature: of the softmax, in units of cosine similarity; above 0.
        seed: of the draws.

    Raises:
        ConfigError: `memory_weight` is negative or `temperature` not positive.
    """

    def __init__(
        self, encoder: SentenceEncoder, memory_weight: float, temperature: float, seed: int
    ) -> None:
        if memory_weight < 0:
            raise ConfigError(f"reranker.memory_weight={memory_weight} is negative; use 0 or more")
        if temperature <= 0:
            raise ConfigError(f"reranker.temperature={temperature} must be above 0")
        super().__init__(temperature, seed)
        self.encoder = encoder
        self.memory_weight = memory_weight
        self._queries = _VectorCache(encoder.encode_queries, CACHED_VECTORS)
        self._texts = _VectorCache(encoder.encode_products, CACHED_VECTORS)
        self._memories = _VectorCache(self._encode_memories, CACHED_VECTORS)

    def remember(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Takes vectors [n, d] that this encoder has made elsewhere, so as not to make them again.

        Texts beyond what the judge keeps are left out; they are encoded when they are met.
        """
        self._texts.add(texts[:CACHED_VECTORS], vectors[:CACHED_VECTORS])

    def scores(self, comparisons: Sequence[Comparison]) -> list[np.ndarray]:
        """Float64 [candidates] per comparison."""
        found: list[np.ndarray] = []
        for start in range(0, len(comparisons), COMPARISONS_AT_ONCE):
            chunk = comparisons[start : start + COMPARISONS_AT_ONCE]
            sizes = [len(comparison.candidates) for comparison in chunk]
            wanted = self._wanted(chunk)  # [B, d]
            offered = self._texts.rows(
                product.text for comparison in chunk for product in comparison.candidates
            )  # [sum of sizes, d]
            scores = np.einsum("cd,cd->c", offered, np.repeat(wanted, sizes, axis=0))
            found.extend(np.split(scores.astype(np.float64), np.cumsum(sizes)[:-1]))
        return found

    def _wanted(self, comparisons: Sequence[Comparison]) -> np.ndarray:
        """The query plus the weighted memory: its product with a candidate is the score. [B, d]"""
        wanted = self._queries.rows(comparison.query for comparison in comparisons)
        told = [i for i, comparison in enumerate(comparisons) if comparison.memory.text.strip()]
        if told and self.memory_weight:
            memories = self._memories.rows(comparisons[i].memory.text for i in told)
            wanted[told] += self.memory_weight * memories
        return wanted

    def _encode_memories(self, memories: Sequence[str]) -> np.ndarray:
        pieces = [self._pieces(memory) for memory in memories]
        rows = self._texts.rows(piece for parts in pieces for piece in parts)
        bounds = np.cumsum([0, *map(len, pieces)])[:-1]
        sums = np.add.reduceat(rows, bounds, axis=0)  # [memories, d]
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)

    def _pieces(self, memory: str) -> list[str]:
        lines = [line.strip() for line in memory.splitlines() if line.strip()]
        return [piece for line in lines for piece in self.encoder.windows(line)]


class _VectorCache:
    """The vectors of the texts that were asked for last, made in one batch where missing."""

    def __init__(self, encode: Callable[[Sequence[str]], np.ndarray], capacity: int) -> None:
        self._encode = encode
        self._capacity = capacity
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()

    def add(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Keeps vectors [n, d] that were made elsewhere."""
        self._vectors.update(zip(texts, vectors, strict=True))

    def rows(self, texts: Iterable[str]) -> np.ndarray:
        """Vectors of `texts`, repeats included, as a new array [n, d]."""
        texts = list(texts)
        distinct = dict.fromkeys(texts)
        missing = [text for text in distinct if text not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self._encode(missing), strict=True))
        for text in distinct:
            self._vectors.move_to_end(text)
        found = np.stack([self._vectors[text] for text in texts])
        while len(self._vectors) > self._capacity:
            self._vectors.popitem(last=False)
        return found
