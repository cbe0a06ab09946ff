"""The language model in process: what it scores, against plain passes written out here."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import chat_tokenizer, random_llama, random_qwen2, write_llama
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from memrerank.errors import ConfigError, JudgeError
from memrerank.rerank import prefixes
from memrerank.rerank.local import LocalReranker
from memrerank.rerank.prefixes import PrefixModel, Row, common_length
from memrerank.rerank.prompting import setwise_prompt
from memrerank.schema import Comparison, Memory, Product, Question

TITLES = ["red shoe", "a blue umbrella for rain", "tea", "lamp, green", "Purchase of a category"]
PRODUCTS = tuple(Product(f"p{i}", title, "", "Toys") for i, title in enumerate(TITLES))
QUESTIONS = [
    Comparison("q0", "a shoe", Memory("likes red"), PRODUCTS),
    Comparison("q0", "a shoe", Memory("likes red"), PRODUCTS[:3]),
    Comparison("q0", "a shoe", Memory("likes red"), PRODUCTS[::-1]),
    Comparison("q1", "something that keeps me dry", Memory(), PRODUCTS[1:]),
    Comparison("q2", "tea", Memory("likes green tea", "drinks in the evening"), PRODUCTS),
]

MakeJudge = Callable[..., LocalReranker]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_llama(tmp_path_factory.mktemp("judge") / "tiny"))


@pytest.fixture
def judge_of(folder: str, tmp_path: Path) -> MakeJudge:
    def make(**changes: Any) -> LocalReranker:
        settings: dict[str, Any] = {
            "model": folder,
            "dtype": "float32",
            "prompt": "setwise" if changes.get("method") == "labels" else "likelihood",
            "method": "likelihood",
            "orders": 1,
            "temperature": 0.0,
            "seed": 0,
            "batch_size": 4,
            "share_prefix": True,
            "device": "cpu",
            "cache_dir": tmp_path,
        }
        return LocalReranker(**{**settings, **changes})

    return make


def plain_logits(folder: str, text: str) -> tuple[list[int], torch.Tensor]:
    """Tokens of a text, and the logits after each of them, of one plain pass."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        return ids, model(input_ids=torch.tensor([ids])).logits[0].double()


def chat(folder: str, comparison: Comparison, prompt: str) -> str:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = setwise_prompt(comparison, prompt=prompt).messages
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def label_log_probs(folder: str, comparison: Comparison) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    _, logits = plain_logits(folder, chat(folder, comparison, "setwise"))
    labels = [tokenizer.convert_tokens_to_ids(c) for c in "ABCDE"[: len(comparison.candidates)]]
    return logits[-1, labels].log_softmax(-1).numpy()


def shares(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum()


@pytest.mark.parametrize("share", [True, False])
def test_labels_are_read_as_the_next_token(judge_of: MakeJudge, folder: str, share: bool) -> None:
    judge = judge_of(method="labels", temperature=1.0, share_prefix=share)
    for asked, choice in zip(QUESTIONS, judge.distribution(QUESTIONS), strict=True):
        wanted = shares(label_log_probs(folder, asked))
        np.testing.assert_allclose(choice.probabilities, wanted, atol=1e-4)
    greedy = judge_of(method="labels", share_prefix=share).choose(QUESTIONS)
    assert [choice.index for choice in greedy] == [
        int(label_log_probs(folder, asked).argmax()) for asked in QUESTIONS
    ]


def test_several_orders_average_each_candidates_log_probability(
    judge_of: MakeJudge, folder: str
) -> None:
    asked = QUESTIONS[0]
    total = np.zeros(5)
    for turn in range(3):
        places = [(place + turn) % 5 for place in range(5)]
        turned = replace(asked, candidates=tuple(PRODUCTS[place] for place in places))
        for place, value in zip(places, label_log_probs(folder, turned), strict=True):
            total[place] += value / 3
    judge = judge_of(method="labels", temperature=1.0, orders=3)
    (choice,) = judge.distribution([asked])
    np.testing.assert_allclose(choice.probabilities, shares(total), atol=1e-4)
    all_five = judge_of(method="labels", temperature=1.0, orders=5)
    one, other = all_five.distribution(
        [asked, replace(asked, candidates=PRODUCTS[2:] + PRODUCTS[:2])]
    )
    np.testing.assert_allclose(one.probabilities, np.roll(other.probabilities, 2), atol=1e-5)


@pytest.mark.parametrize("share", [True, False])
def test_likelihood_is_the_mean_log_probability_of_the_candidates_tokens(
    judge_of: MakeJudge, folder: str, share: bool
) -> None:
    scored = judge_of(share_prefix=share).score(QUESTIONS)
    for asked, choice in zip(QUESTIONS, scored, strict=True):
        text = chat(folder, asked, "likelihood")
        for product, score in zip(asked.candidates, choice.scores, strict=True):
            start = len(plain_logits(folder, text)[0])
            ids, logits = plain_logits(folder, text + product.text)
            steps = logits[start - 1 : -1].log_softmax(-1)
            wanted = np.mean([steps[i, token].item() for i, token in enumerate(ids[start:])])
            assert score == pytest.approx(wanted, abs=1e-4)


def test_a_candidate_has_one_likelihood_in_all_comparisons_and_is_read_once(
    judge_of: MakeJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    whole = PrefixModel.mean_log_probs

    def counted(self: PrefixModel, batch: list[Row]) -> torch.Tensor:
        rows.append(len(batch))
        return whole(self, batch)

    monkeypatch.setattr(PrefixModel, "mean_log_probs", counted)
    judge = judge_of()
    first, _, turned, *_ = judge.score(QUESTIONS)
    judge.order(QUESTIONS)
    assert rows == [5 + 4 + 5]
    assert first.scores == turned.scores[::-1]


def test_choices_follow_the_scores(judge_of: MakeJudge) -> None:
    greedy = judge_of()
    for choice, scored in zip(greedy.choose(QUESTIONS), greedy.score(QUESTIONS), strict=True):
        assert choice.index == int(np.argmax(scored.scores))
    for choice, scored in zip(greedy.order(QUESTIONS), greedy.score(QUESTIONS), strict=True):
        assert list(choice.order) == np.argsort(-np.array(scored.scores)).tolist()
    warm = judge_of(temperature=0.5)
    (shown,) = warm.distribution(QUESTIONS[:1])
    scores = np.array(greedy.score(QUESTIONS[:1])[0].scores)
    np.testing.assert_allclose(shown.probabilities, shares(scores / 0.5), atol=1e-6)
    draws = warm.choose([replace(QUESTIONS[0], sample=i) for i in range(400)])
    counts = np.bincount([int(choice.index or 0) for choice in draws], minlength=5) / 400
    np.testing.assert_allclose(counts, shown.probabilities, atol=0.1)
    assert [c.index for c in draws] == [
        c.index for c in warm.choose([replace(QUESTIONS[0], sample=i) for i in range(400)])
    ]


def test_only_likelihoods_are_scores(judge_of: MakeJudge) -> None:
    assert Question.score in judge_of().questions
    assert Question.score not in judge_of(method="labels").questions


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"orders": 0}, r"reranker\.orders=0"),
        ({"orders": 2}, r"method=likelihood shows no order"),
        ({"batch_size": 0}, r"reranker\.batch_size=0"),
        ({"temperature": -1.0}, r"reranker\.temperature=-1\.0"),
        ({"prompt": "setwise"}, "needs a prompt that does not show the candidates"),
        ({"method": "labels", "prompt": "likelihood"}, "needs a prompt that shows the candidates"),
        ({"prompt": "none"}, r"reranker\.prompt=none: no such prompt; known: likelihood, setwise"),
    ],
)
def test_settings_that_cannot_work(judge_of: MakeJudge, changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        judge_of(**changes)


def test_a_model_that_is_not_there_is_named_once_it_is_needed(judge_of: MakeJudge) -> None:
    judge = judge_of(model="/nowhere/at/all")
    with pytest.raises(ConfigError, match=r"reranker\.model=/nowhere/at/all: cannot be loaded"):
        judge.choose(QUESTIONS)


def test_a_prompt_beyond_the_models_context_is_told(judge_of: MakeJudge) -> None:
    long = replace(QUESTIONS[0], memory=Memory("word " * 4096))
    with pytest.raises(JudgeError, match=r"a prompt of \d+ tokens does not fit into the 4096"):
        judge_of().choose([long])


# ---------------------------------------------------------------- shared beginnings


def random_gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=384, initializer_range=0.3)
    return GPT2LMHeadModel(config).eval()


MODELS = {"llama": random_llama, "qwen2": random_qwen2, "gpt2": random_gpt2}


def random_rows(seed: int) -> list[Row]:
    generator = np.random.default_rng(seed)

    def draw(n: int) -> tuple[int, ...]:
        return tuple(generator.integers(2, 380, n).tolist())

    beginnings = [draw(7), draw(19), ()]
    return [Row(beginnings[i % 3], draw(int(generator.integers(2, 12)))) for i in range(11)]


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_shared_beginnings_change_nothing(name: str, batch_size: int) -> None:
    model = MODELS[name]().eval()
    rows = random_rows(3)
    sharing = PrefixModel(model, 0, batch_size)
    with torch.no_grad():
        wholes = [
            model(input_ids=torch.tensor([row.shared + row.rest])).logits[0].double()
            for row in rows
        ]
    last = torch.stack([whole[-1, [5, 9]] for whole in wholes])
    for _ in range(2):  # the second time from what was kept
        torch.testing.assert_close(
            sharing.last_logits(rows, [5, 9]).double(), last, atol=1e-4, rtol=0
        )
    means = []
    for row, whole in zip(rows, wholes, strict=True):
        steps = whole[len(row.shared) : -1].log_softmax(-1)
        means.append(np.mean([steps[i, token].item() for i, token in enumerate(row.rest[1:])]))
    np.testing.assert_allclose(sharing.mean_log_probs(rows).numpy(), means, atol=1e-4)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefixes, "KEPT_BYTES", 1)
    sharing = PrefixModel(random_llama().eval(), 0, 4)
    sharing.last_logits(random_rows(0), [1])
    assert len(sharing._kept) == 1


def test_common_length() -> None:
    assert common_length([1, 2, 3], [1, 2, 4]) == 2
    assert common_length([1, 2], [1, 2, 4]) == 2
    assert common_length([], [1]) == 0


def test_the_tokens_of_a_row_are_those_of_its_text(judge_of: MakeJudge, folder: str) -> None:
    judge = judge_of(method="labels")
    row = judge._row(QUESTIONS[0])
    text = chat(folder, QUESTIONS[0], "setwise")
    assert (
        list(row.shared + row.rest) == chat_tokenizer()(text, add_special_tokens=False)["input_ids"]
    )
    assert len(row.shared) > len(row.rest) / 2
