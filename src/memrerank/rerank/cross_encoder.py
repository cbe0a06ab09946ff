"""A cross-encoder as the judge: query, memory and one candidate are read together."""

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.drawing import answer
from memrerank.schema import Choice, Comparison, Question

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

log = logging.getLogger(__name__)

KEPT_SCORES = 200_000  # one for each query, memory and product
CANDIDATE_SHARE = 0.5  # of the window, at most, where a pair does not fit into it

Pair = tuple[str, str]  # query and memory, candidate


class CrossEncoderReranker:
    """A setwise and pointwise judge made of a sentence-transformers CrossEncoder.

    The first text of a pair is the query and, on a line of its own, the memory; the second is the
    candidate. Its score is the model's logit. Where a pair is longer than the window the candidate
    is cut to half of it, then the end of the memory goes: never the query. Cut pairs are counted
    and told.

    Choices are drawn from the softmax of the scores over `temperature` (`rerank/drawing.py`). The
    model is loaded at the first question.

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
        if temperature < 0:
            raise ConfigError(f"reranker.temperature={temperature} is negative; use 0 or more")
        for name, value, least in (("max_length", max_length, 16), ("batch_size", batch_size, 1)):
            if value < least:
                raise ConfigError(f"reranker.{name}={value}: use {least} or more")
        self.model = model
        self.max_length = max_length
        self.temperature = temperature
        self.seed = seed
        self.batch_size = batch_size
        self.device = device
        self.cut = 0  # pairs that were longer than the window
        self._scores: OrderedDict[Pair, float] = OrderedDict()

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """One drawn answer per comparison, in order; latency is the batch's time shared out.

        Raises:
            ConfigError: the model cannot be loaded, or gives more than one score.
            JudgeError: it gives something that is no number.
        """
        return self._answer(Question.choose, comparisons)

    def order(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, all candidates, best first."""
        return self._answer(Question.order, comparisons)

    def score(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, each candidate's logit."""
        return self._answer(Question.score, comparisons)

    def distribution(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        """As `choose`, how probable each candidate is."""
        return self._answer(Question.distribution, comparisons)

    def _answer(self, question: Question, comparisons: Sequence[Comparison]) -> list[Choice]:
        started = time.perf_counter()
        pairs = [
            [(_wanted(comparison), product.text) for product in comparison.candidates]
            for comparison in comparisons
        ]
        self._predict(list(dict.fromkeys(pair for row in pairs for pair in row)))
        choices = [
            answer(
                question,
                comparison,
                np.array([self._scores[pair] for pair in row]),
                self.temperature,
                self.seed,
            )
            for comparison, row in zip(comparisons, pairs, strict=True)
        ]
        while len(self._scores) > KEPT_SCORES:
            self._scores.popitem(last=False)
        latency = (time.perf_counter() - started) / max(1, len(comparisons))
        return [replace(choice, latency=latency) for choice in choices]

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
