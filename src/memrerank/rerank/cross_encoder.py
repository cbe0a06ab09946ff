"""A cross-encoder as the judge: query, memory and one candidate are read together."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.drawing import ScoreReranker
from memrerank.schema import Comparison

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

log = logging.getLogger(__name__)

KEPT_SCORES = 200_000  # one for each query, memory and product
CANDIDATE_SHARE = 0.5  # of the window, at most, where a pair does not fit into it

Pair = tuple[str, str]  # query and memory, candidate


class CrossEncoderReranker(ScoreReranker):
    """A setwise and pointwise judge made of a sentence-transformers CrossEncoder.

    The first text of a pair is the query and, on a line of its own, the memory; the second is the
    candidate. Its score is the model's logit. Where a pair is longer than the window the candidate
    is cut to half of it, then the end of the memory goes: never the query. Cut pairs are counted
    and told.

    The model is loaded at the first question.

    Args:
        model: a Hugging Face id or a local folder.
        max_length: tokens of a pair.
        temperature: in logits; 0 takes the best candidate always.
        seed: of the draws.
        batch_size: pairs in one pass.
        device: None is a GPU where there is one.

    Raises:
        ConfigError: settings that cannot work.
    """

    def __init__(
        self,
        *,
        model: str,
        max_length: int,
        temperature: float,
        seed: int,
        batch_size: int,
        device: str | None,
    ) -> None:
        super().__init__(temperature, seed)
        for name, value, least in (("max_length", max_length, 16), ("batch_size", batch_size, 1)):
            if value < least:
                raise ConfigError(f"reranker.{name}={value}: use {least} or more")
        self.model = model
        self.max_length = max_length
        self.batch_size = batch_size
        self.device = device
        self.cut = 0  # pairs that were longer than the window
        self._scores: OrderedDict[Pair, float] = OrderedDict()

    def scores(self, comparisons: Sequence[Comparison]) -> list[np.ndarray]:
        """Each candidate's logit, float64 [candidates] per comparison."""
        pairs = [
            [(_wanted(comparison), product.text) for product in comparison.candidates]
            for comparison in comparisons
        ]
        self._predict(list(dict.fromkeys(pair for row in pairs for pair in row)))
        found = [np.array([self._scores[pair] for pair in row]) for row in pairs]
        while len(self._scores) > KEPT_SCORES:
            self._scores.popitem(last=False)
        return found

    def _predict(self, pairs: Sequence[Pair]) -> None:
        """Scores the pairs that are not known yet."""
        missing = [pair for pair in pairs if pair not in self._scores]
        if not missing:
            return
        logits = self._encoder.predict(
            [self._fitted(pair) for pair in missing],
            batch_size=self.batch_size,
            activation_fn=torch.nn.Identity(),  # some models are saved with a sigmoid on top
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        if not np.isfinite(logits).all():
            raise JudgeError(
                f"reranker.model={self.model}: it scored {(~np.isfinite(logits)).sum()} of "
                f"{len(missing)} pairs with something that is no number; choose another model"
            )
        self._scores.update(zip(missing, map(float, logits), strict=True))

    def _fitted(self, pair: Pair) -> Pair:
        """A pair that fits into the window."""
        tokenizer = self._encoder.tokenizer
        first, second = (
            tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            for text in pair
        )
        room = self.max_length - tokenizer.num_special_tokens_to_add(pair=True)
        lengths = len(first["input_ids"]), len(second["input_ids"])
        if sum(lengths) <= room:
            return pair
        if not self.cut:
            log.warning(
                "a pair of %d tokens does not fit into reranker.max_length=%d: the candidate, then "
                "the end of the memory are cut (reranker.cut counts such pairs)",
                sum(lengths),
                self.max_length,
            )
        self.cut += 1
        kept = max(int(room * CANDIDATE_SHARE), room - lengths[0])
        second_kept = min(lengths[1], kept)
        first_kept = room - second_kept
        return _start(pair[0], first, first_kept), _start(pair[1], second, second_kept)

    @cached_property
    def _encoder(self) -> "CrossEncoder":
        from sentence_transformers import CrossEncoder

        try:
            encoder = CrossEncoder(self.model, max_length=self.max_length, device=self.device)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"reranker.model={self.model}: cannot be loaded ({error}). Give a Hugging Face id "
                "that this machine can reach, or a local folder of a CrossEncoder"
            ) from error
        if encoder.num_labels != 1:
            raise ConfigError(
                f"reranker.model={self.model}: gives {encoder.num_labels} scores for a pair; a "
                "judge needs a model that gives one"
            )
        log.info("Judge: %s on %s", self.model, encoder.device)
        return encoder


def _wanted(comparison: Comparison) -> str:
    """Query and memory as one text."""
    memory = comparison.memory.text.strip()
    return f"{comparison.query}\n{memory}" if memory else comparison.query


def _start(text: str, tokens: dict, kept: int) -> str:
    """The text of its first `kept` tokens."""
    offsets = tokens["offset_mapping"]
    return text if kept >= len(offsets) else text[: offsets[kept - 1][1] if kept else 0]
