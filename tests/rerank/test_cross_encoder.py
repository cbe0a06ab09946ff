"""The cross-encoder as a judge, with a tiny BERT of random weights."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from tiny import chat_tokenizer
from transformers import BertConfig, BertForSequenceClassification

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank.cross_encoder import CrossEncoderReranker
from memrerank.schema import Comparison, Memory, Product, Question

PRODUCTS = tuple(
    Product(f"p{i}", title, "", "Toys")
    for i, title in enumerate(["red shoe", "blue umbrella", "tea", "green lamp", "a card"])
)
QUESTIONS = [
    Comparison("q0", "a shoe", Memory("likes red", "likes tea"), PRODUCTS),
    Comparison("q1", "a shoe", Memory(), PRODUCTS[::-1]),
]

MakeJudge = Callable[..., CrossEncoderReranker]


def write_model(folder: Path, labels: int = 1) -> str:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=384,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_labels=labels,
        initializer_range=0.8,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    chat_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_model(tmp_path_factory.mktemp("cross"))


@pytest.fixture
def judge_of(folder: str) -> MakeJudge:
    def make(**changes: Any) -> CrossEncoderReranker:
        settings: dict[str, Any] = {
            "model": folder,
            "max_length": 128,
            "temperature": 0.0,
            "seed": 0,
            "batch_size": 4,
            "device": "cpu",
        }
        return CrossEncoderReranker(**{**settings, **changes})

    return make


def wanted(folder: str, comparison: Comparison) -> np.ndarray:
    memory = comparison.memory.text
    first = f"{comparison.query}\n{memory}" if memory else comparison.query
    pairs = [(first, product.text) for product in comparison.candidates]
    return CrossEncoder(folder, device="cpu").predict(pairs, activation_fn=torch.nn.Identity())


def test_scores_are_the_models_logits(judge_of: MakeJudge, folder: str) -> None:
    for asked, choice in zip(QUESTIONS, judge_of().score(QUESTIONS), strict=True):
        np.testing.assert_allclose(choice.scores, wanted(folder, asked), atol=1e-5)
        assert choice.index == int(np.argmax(choice.scores))
    assert np.std(wanted(folder, QUESTIONS[0])) > 0.01  # the pairs do differ


def test_choices_orders_and_probabilities_follow_the_scores(
    judge_of: MakeJudge, folder: str
) -> None:
    scores = wanted(folder, QUESTIONS[0])
    greedy, warm = judge_of(), judge_of(temperature=2.0)
    assert greedy.choose(QUESTIONS)[0].index == scores.argmax()
    assert list(greedy.order(QUESTIONS)[0].order) == np.argsort(-scores).tolist()
    (shown,) = warm.distribution(QUESTIONS[:1])
    weights = np.exp(scores / 2.0)
    np.testing.assert_allclose(shown.probabilities, weights / weights.sum(), atol=1e-5)
    draws = [replace(QUESTIONS[0], sample=i) for i in range(400)]
    counts = np.bincount([int(c.index or 0) for c in warm.choose(draws)], minlength=5) / 400
    np.testing.assert_allclose(counts, shown.probabilities, atol=0.1)
    assert answers_all(greedy)


def answers_all(judge: CrossEncoderReranker) -> bool:
    return all(hasattr(judge, question) for question in Question)


def test_a_pair_is_scored_once(judge_of: MakeJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[int] = []
    predict = CrossEncoder.predict

    def counted(self: CrossEncoder, pairs: list, **options: Any) -> Any:
        scored.append(len(pairs))
        return predict(self, pairs, **options)

    monkeypatch.setattr(CrossEncoder, "predict", counted)
    judge = judge_of()
    judge.choose([*QUESTIONS, QUESTIONS[0]])
    judge.score(QUESTIONS)
    assert scored == [10]


def test_what_does_not_fit_is_cut_at_the_ends_and_told(
    judge_of: MakeJudge, caplog: pytest.LogCaptureFixture
) -> None:
    judge = judge_of(max_length=64)
    long = Product("long", "word " * 60, "", "Toys")
    memory = Memory("likes " * 60)
    asked = Comparison("q", "a shoe", memory, (long, PRODUCTS[0]))
    with caplog.at_level(logging.WARNING):
        judge.choose([asked])
    assert judge.cut == 2
    assert len(caplog.records) == 1
    assert "does not fit into reranker.max_length=64" in caplog.text
    first, second = judge._fitted((f"a shoe\n{memory.text}", long.text))
    tokens = [
        len(chat_tokenizer()(t, add_special_tokens=False)["input_ids"]) for t in (first, second)
    ]
    assert first.startswith("a shoe\nlikes")
    assert sum(tokens) <= 64
    assert 28 <= tokens[1] <= 32
    short = judge._fitted((f"a shoe\n{memory.text}", "red shoe"))
    assert short[1] == "red shoe"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": -1.0}, r"reranker\.temperature=-1\.0"),
        ({"max_length": 3}, r"reranker\.max_length=3"),
        ({"batch_size": 0}, r"reranker\.batch_size=0"),
    ],
)
def test_settings_that_cannot_work(judge_of: MakeJudge, changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        judge_of(**changes)


def test_models_that_cannot_judge_are_named(judge_of: MakeJudge, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"reranker\.model=/nowhere: cannot be loaded"):
        judge_of(model="/nowhere").choose(QUESTIONS)
    three = write_model(tmp_path / "three", labels=3)
    with pytest.raises(ConfigError, match="gives 3 scores for a pair"):
        judge_of(model=three).choose(QUESTIONS)


def test_no_number_is_no_score(judge_of: MakeJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CrossEncoder, "predict", lambda *_, **__: np.array([np.nan] * 5))
    with pytest.raises(JudgeError, match="it scored 5 of 5 pairs with something that is no number"):
        judge_of().choose(QUESTIONS[:1])
