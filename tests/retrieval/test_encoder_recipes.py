"""The paper's encoders by their model cards, against the recipe written out in plain PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from tiny_encoders import WRITERS
from transformers import AutoModel, AutoTokenizer

from memrerank.config import register
from memrerank.retrieval.encoder import SentenceEncoder

CONF = Path(__file__).parent.parent.parent / "conf"
TASK = "Given a shopper's need, retrieve the product that meets it"
TEXTS = [
    "red pen",
    "a large steel rake for the garden, soft and small, with a blue hose and a green hose for kids",
    "pen",
    "unheard words only",
    "a soft pen for kids. It meets the need",
]
# By model card: what a query looks like, which token is pooled, the most tokens, and the padding.
CARDS: dict[str, tuple[str, int, int, str]] = {
    "blair": ("{text}", 0, 512, "right"),
    "qwen3": (f"Instruct: {TASK}\nQuery:{{text}}", -1, 8192, "left"),
    "linq": (f"Instruct: {TASK}\nQuery: {{text}}", -1, 4096, "right"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {name: write(tmp_path_factory.mktemp(name)) for name, write in WRITERS.items()}


def node(name: str) -> Any:
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", [f"retriever={name}"]).retriever.encoder


def encoder(name: str, model: str, **changes: Any) -> SentenceEncoder:
    """The encoder as configured, with tiny weights in float32."""
    settings = {"model": model, "dtype": "float32", "device": "cpu", "batch_size": 3, **changes}
    made: SentenceEncoder = instantiate({**node(name), **settings})
    return made


def by_hand(model: str, texts: list[str], place: int, most: int) -> np.ndarray:
    """One text at a time, without padding: the token at `place` of the last layer, normalised."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModel.from_pretrained(model).eval()
    vectors = []
    for text in texts:
        inputs = tokenizer(text, truncation=True, max_length=most, return_tensors="pt")
        with torch.no_grad():
            states = network(**inputs).last_hidden_state[0]  # [t, d]
        vectors.append(torch.nn.functional.normalize(states[place], dim=0).numpy())
    return np.stack(vectors)


@pytest.mark.parametrize("name", CARDS)
def test_a_batch_of_products_is_what_each_is_alone(name: str, models: dict[str, str]):
    _, place, most, _ = CARDS[name]
    expected = by_hand(models[name], TEXTS, place, most)
    vectors = encoder(name, models[name]).encode_products(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert np.abs(vectors[0] - vectors[2]).max() > 0.01  # the texts do differ


@pytest.mark.parametrize("name", CARDS)
def test_a_query_is_instructed_as_the_card_says(name: str, models: dict[str, str]):
    form, place, most, _ = CARDS[name]
    assert node(name).query_template == form
    texts = [form.replace("{text}", text) for text in TEXTS]
    expected = by_hand(models[name], texts, place, most)
    vectors = encoder(name, models[name]).encode_queries(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    bare = encoder(name, models[name]).encode_products(TEXTS)
    assert (np.abs(vectors - bare).max() > 0.01) == (form != "{text}")


@pytest.mark.parametrize("name", CARDS)
def test_a_text_that_is_cut_keeps_its_last_special_token(name: str, models: dict[str, str]):
    place, most = CARDS[name][1], 9
    expected = by_hand(models[name], TEXTS, place, most)
    vectors = encoder(name, models[name], max_length=most).encode_products(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    whole = by_hand(models[name], TEXTS, place, CARDS[name][2])
    assert np.abs(expected[1] - whole[1]).max() > 0.01  # it was cut
    tokenizer = AutoTokenizer.from_pretrained(models[name])
    kept = tokenizer(TEXTS[1], truncation=True, max_length=most)["input_ids"]
    assert len(kept) == most
    assert tokenizer.convert_ids_to_tokens(kept)[-1] in ("</s>", "<|endoftext|>")


@pytest.mark.parametrize("name", CARDS)
def test_lengths_and_padding_are_the_cards(name: str, models: dict[str, str]):
    _, _, most, side = CARDS[name]
    settings = node(name)
    assert (settings.max_length, settings.padding_side) == (most, side)
    assert encoder(name, models[name])._tokenizer.padding_side == side


@pytest.mark.parametrize("name", CARDS)
def test_an_empty_text_has_a_vector_of_length_one(name: str, models: dict[str, str]):
    vectors = encoder(name, models[name]).encode_products(["", "red pen"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_weights_give_float32_vectors_close_by(dtype: str, models: dict[str, str]):
    exact = encoder("qwen3", models["qwen3"]).encode_products(TEXTS)
    half = encoder("qwen3", models["qwen3"], dtype=dtype)
    vectors = half.encode_products(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert half._model[0].auto_model.dtype == getattr(torch, dtype)
    assert (vectors * exact).sum(1).min() > 0.98
    assert half.recipe != encoder("qwen3", models["qwen3"]).recipe


def test_an_encoder_made_from_its_arguments_is_the_same(models: dict[str, str]):
    one = encoder("qwen3", models["qwen3"])
    other = type(one)(**one.arguments())
    assert other.arguments() == one.arguments()
    assert other.recipe == one.recipe
    np.testing.assert_array_equal(other.encode_products(TEXTS), one.encode_products(TEXTS))
