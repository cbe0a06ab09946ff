import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from memrerank.errors import ConfigError
from memrerank.rerank import embedding
from memrerank.rerank.embedding import EmbeddingReranker
from memrerank.schema import Comparison, Memory, Product

AXES = ("tea", "shoe", "red", "blue")


class AxisEncoder:
    """Counts the words of AXES; vectors of length one. A window holds four words."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode_products(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded.extend(texts)
        counts = np.array(
            [[text.lower().split().count(axis) for axis in AXES] for text in texts], np.float32
        )
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-12)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode_products(texts)

    def windows(self, text: str) -> list[str]:
        words = text.split()
        return [" ".join(words[start : start + 4]) for start in range(0, len(words), 4)]


def product(product_id: str, title: str) -> Product:
    return Product(product_id, title, "", "Shoes")


TEA = product("B1", "tea")
SHOE = product("B2", "shoe")
RED_SHOE = product("B3", "red shoe")
BLUE_SHOE = product("B4", "blue shoe")
CANDIDATES = (TEA, SHOE, RED_SHOE, BLUE_SHOE)
ROOT_HALF = math.sqrt(0.5)


def comparison(memory: str = "", sample: int = 0, candidates=CANDIDATES) -> Comparison:
    return Comparison("q1", "shoe", Memory(memory), candidates, sample)


def judge(memory_weight: float = 2.0, temperature: float = 0.5, seed: int = 0) -> EmbeddingReranker:
    return EmbeddingReranker(AxisEncoder(), memory_weight, temperature, seed)


def chances_of(reranker: EmbeddingReranker, questions: Sequence[Comparison]) -> list[np.ndarray]:
    return [np.array(choice.probabilities) for choice in reranker.distribution(questions)]


def softmax(scores: Sequence[float], temperature: float) -> list[float]:
    weights = [math.exp(score / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def test_scores_add_query_and_weighted_memory_similarity() -> None:
    # cos to the query "shoe": 0, 1, .707, .707; cos to the memory "red": 0, 0, .707, 0.
    scores = [0, 1, ROOT_HALF + 2.0 * ROOT_HALF, ROOT_HALF]
    (chances,) = chances_of(judge(), [comparison("red")])
    np.testing.assert_allclose(chances, softmax(scores, 0.5), rtol=1e-6)


@pytest.mark.parametrize("memory", ["", "  \n "])
def test_an_empty_memory_adds_nothing(memory: str) -> None:
    (chances,) = chances_of(judge(), [comparison(memory)])
    np.testing.assert_allclose(chances, softmax([0, 1, ROOT_HALF, ROOT_HALF], 0.5), rtol=1e-6)


def test_a_memory_weight_of_zero_ignores_the_memory() -> None:
    blind = judge(memory_weight=0.0)
    told, untold = chances_of(blind, [comparison("red"), comparison()])
    np.testing.assert_array_equal(told, untold)


def test_lines_and_windows_of_a_memory_weigh_alike() -> None:
    # Two lines, the second of two windows: red, tea, blue, each of length one.
    memory = "red\ntea tea tea tea blue"
    weight = 2.0 / math.sqrt(3)
    scores = [weight, 1, ROOT_HALF * (1 + weight), ROOT_HALF * (1 + weight)]
    (chances,) = chances_of(judge(), [comparison(memory)])
    np.testing.assert_allclose(chances, softmax(scores, 0.5), rtol=1e-6)


def test_draws_follow_the_distribution() -> None:
    reranker = judge()
    draws = [comparison("red", sample) for sample in range(4_000)]
    counts = Counter(choice.index for choice in reranker.choose(draws))
    (chances,) = chances_of(reranker, draws[:1])
    shares = [counts[index] / len(draws) for index in range(4)]
    np.testing.assert_allclose(shares, chances, atol=0.03)  # four standard errors


def test_an_answer_does_not_depend_on_the_batch() -> None:
    questions = [comparison(memory, sample) for memory in ("", "red", "tea") for sample in range(9)]
    together = [choice.index for choice in judge().choose(questions)]
    alone = [judge().choose([question])[0].index for question in reversed(questions)]
    assert together == alone[::-1]
    assert len(set(together)) > 1


def test_the_order_of_the_candidates_does_not_change_the_winner() -> None:
    reranker = judge(temperature=2.0)
    wins = []
    for sample in range(50):
        orders = [CANDIDATES, CANDIDATES[::-1], (SHOE, BLUE_SHOE, TEA, RED_SHOE)]
        questions = [comparison("red", sample, order) for order in orders]
        choices = reranker.choose(questions)
        ids = {q.candidates[c.index].id for q, c in zip(questions, choices, strict=True)}
        assert len(ids) == 1
        wins.append(ids.pop())
    assert len(set(wins)) > 1


@pytest.mark.parametrize(
    "change",
    [
        {"query_id": "q2"},
        {"query": "red shoe"},
        {"memory": Memory("blue")},
        {"sample": 1},
        {"candidates": CANDIDATES[:3]},
    ],
)
def test_another_question_is_drawn_anew(change: dict) -> None:
    reranker = judge(temperature=50.0)  # near uniform: only the draw decides
    questions = [comparison("red", 10 * n) for n in range(60)]
    changed = [
        replace(question, **(change if "sample" not in change else {"sample": question.sample + 1}))
        for question in questions
    ]
    first = [choice.index for choice in reranker.choose(questions)]
    second = [choice.index for choice in reranker.choose(changed)]
    same = sum(a == b for a, b in zip(first, second, strict=True))
    assert same < 45  # 15 to 20 of 60 by chance


def test_another_seed_draws_otherwise() -> None:
    questions = [comparison("red", sample) for sample in range(60)]
    first = [choice.index for choice in judge(temperature=50.0).choose(questions)]
    assert first != [choice.index for choice in judge(temperature=50.0, seed=1).choose(questions)]


def test_each_text_is_encoded_once() -> None:
    reranker = judge()
    reranker.choose([comparison("red\nblue", sample) for sample in range(20)])
    reranker.distribution([comparison("blue")])
    counts = Counter(reranker.encoder.encoded)
    assert counts == {"shoe": 2, "tea": 1, "red shoe": 1, "blue shoe": 1, "red": 1, "blue": 1}
    # "shoe" is both a query, which goes through the template, and a product.


def test_the_cache_forgets_the_oldest_and_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "CACHED_VECTORS", 2)
    small = judge()
    expected = judge()
    monkeypatch.undo()
    questions = [comparison("red"), comparison("tea\nblue")]
    for _ in range(2):
        for got, want in zip(
            chances_of(small, questions), chances_of(expected, questions), strict=True
        ):
            np.testing.assert_array_equal(got, want)
    assert len(small._texts._vectors) == 2


def test_long_batches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [comparison("red", 0, CANDIDATES[: 2 + n % 3]) for n in range(10)]
    whole = chances_of(judge(), questions)
    monkeypatch.setattr(embedding, "COMPARISONS_AT_ONCE", 3)
    for got, want in zip(chances_of(judge(), questions), whole, strict=True):
        np.testing.assert_array_equal(got, want)
    assert [len(chances) for chances in whole] == [2, 3, 4, 2, 3, 4, 2, 3, 4, 2]


def test_no_questions_have_no_answers() -> None:
    assert judge().choose([]) == []
    assert judge().distribution([]) == []


def test_latency_is_measured() -> None:
    (choice,) = judge().choose([comparison("red")])
    assert choice.latency > 0
    assert choice.cost == 0


@pytest.mark.parametrize(("weight", "temperature"), [(-0.1, 1.0), (1.0, 0.0)])
def test_settings_out_of_range_are_named(weight: float, temperature: float) -> None:
    with pytest.raises(ConfigError, match=r"reranker\.(memory_weight=-0.1|temperature=0.0)"):
        judge(weight, temperature)


def test_scores_and_orders_follow_the_distribution() -> None:
    questions = [comparison("red", sample, CANDIDATES[1:]) for sample in range(2000)]
    (scored,) = judge().score(questions[:1])
    weights = np.exp(np.array(scored.scores) / 0.5)
    (chances,) = chances_of(judge(), questions[:1])
    np.testing.assert_allclose(weights / weights.sum(), chances)
    ordered = judge().order(questions)
    chosen = [choice.index for choice in judge().choose(questions)]
    assert [choice.index for choice in ordered] == [choice.order[0] for choice in ordered] == chosen
    assert all(sorted(choice.order) == list(range(len(chances))) for choice in ordered)
    # Plackett-Luce: the last of three is drawn with the chance that the other two come before it
    last = Counter(choice.order[-1] for choice in ordered)
    others = [
        sum(
            chances[a] * chances[b] / (1 - chances[a])
            for a in range(3)
            for b in range(3)
            if len({a, b, place}) == 3
        )
        for place in range(3)
    ]
    shares = [last[place] / len(questions) for place in range(3)]
    np.testing.assert_allclose(shares, others, atol=0.04)


def test_votes_and_attempts_are_draws_of_their_own() -> None:
    flat = judge(temperature=50.0)
    questions = [comparison("red", sample) for sample in range(20)]
    first = [choice.index for choice in flat.choose(questions)]
    for change in ({"vote": 1}, {"attempt": 1}):
        assert first != [
            choice.index for choice in flat.choose([replace(q, **change) for q in questions])
        ]
