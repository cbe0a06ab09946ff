"""The paper's encoders by their model cards, against the recipe written out in plain PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from tiny_encoders import WRITERS, TinyEncoder
from transformers import AutoModel, AutoTokenizer

from memrerank.config import register
from memrerank.errors import ConfigError
from memrerank.retrieval.encoder import SentenceEncoder

CONF = Path(__file__).parent.parent.parent / "conf"
TASK = "Given a shopper's need, retrieve the product that meets it"
LONG = (
    "a large steel rake for the garden, soft and small, with a blue hose and a green hose for kids"
)
TEXTS = ["red pen", LONG, "", "pen", " two  spaces ", "Größe 42: 雨傘", " ".join([LONG] * 5)]
# By model card: what a query looks like, which token is pooled, and the most tokens.
CARDS: dict[str, tuple[str, int, int]] = {
    "blair": ("{text}", 0, 512),
    "qwen3": (f"Instruct: {TASK}\nQuery:{{text}}", -1, 8192),
    "linq": (f"Instruct: {TASK}\nQuery: {{text}}", -1, 4096),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TinyEncoder]:
    return {name: write(tmp_path_factory.mktemp(name)) for name, write in WRITERS.items()}


def node(name: str) -> Any:
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", [f"retriever={name}"]).retriever.encoder


def encoder(name: str, tiny: dict[str, TinyEncoder], **changes: Any) -> SentenceEncoder:
    """The encoder as configured, with tiny weights in float32; 7 texts make batches of 3, 3, 1."""
    settings = {"model": tiny[name].folder, "dtype": "float32", "device": "cpu", "batch_size": 3}
    made: SentenceEncoder = instantiate({**node(name), **settings, **changes})
    return made


def token_ids(model: TinyEncoder, text: str, most: int) -> list[int]:
    """The tokens of a text, cut so that the card's special tokens around them have room."""
    tokenizer = AutoTokenizer.from_pretrained(model.folder)
    front = tokenizer.convert_tokens_to_ids(list(model.front))
    back = tokenizer.convert_tokens_to_ids(list(model.back))
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return [*front, *ids[: most - len(front) - len(back)], *back]


def by_hand(model: TinyEncoder, texts: list[str], place: int, most: int) -> np.ndarray:
    """One text at a time, without padding: the token at `place` of the last layer, normalised."""
    network = AutoModel.from_pretrained(model.folder).eval()
    vectors = []
    for text in texts:
        with torch.no_grad():
            ids = torch.tensor([token_ids(model, text, most)])  # [1, t]
            states = network(input_ids=ids).last_hidden_state[0]  # [t, d]
        vectors.append((states[place] / states[place].norm()).numpy())
    return np.stack(vectors)


@pytest.mark.parametrize("name", CARDS)
def test_batches_of_products_are_what_each_is_alone(name: str, tiny: dict[str, TinyEncoder]):
    _, place, most = CARDS[name]
    expected = by_hand(tiny[name], TEXTS, place, most)
    vectors = encoder(name, tiny).encode_products(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    apart = np.abs(vectors[:, None] - vectors[None]).max(axis=2)  # [n, n]
    assert apart[~np.eye(len(TEXTS), dtype=bool)].min() > 1e-3  # far beyond the tolerance


@pytest.mark.parametrize("name", CARDS)
def test_queries_are_instructed_as_the_card_says(name: str, tiny: dict[str, TinyEncoder]):
    form, place, most = CARDS[name]
    assert node(name).query_template == form
    expected = by_hand(tiny[name], [form.replace("{text}", text) for text in TEXTS], place, most)
    vectors = encoder(name, tiny).encode_queries(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    bare = encoder(name, tiny).encode_products(TEXTS)
    assert (np.abs(vectors - bare).max() > 0.01) == (form != "{text}")


@pytest.mark.parametrize("name", CARDS)
def test_a_text_that_is_cut_keeps_the_token_that_is_pooled(name: str, tiny: dict[str, TinyEncoder]):
    place, most = CARDS[name][1], 9
    expected = by_hand(tiny[name], TEXTS, place, most)
    cut = encoder(name, tiny, max_length=most)
    np.testing.assert_allclose(cut.encode_products(TEXTS), expected, atol=1e-5)
    assert np.abs(expected - by_hand(tiny[name], TEXTS, place, 4096)).max() > 0.01
    kept = cut._tokenizer(LONG, truncation=True)["input_ids"]
    assert kept == token_ids(tiny[name], LONG, most)
    assert len(kept) == most


@pytest.mark.parametrize("name", ["qwen3", "linq"])
def test_the_padding_side_moves_no_vector_of_a_causal_model(
    name: str, tiny: dict[str, TinyEncoder]
):
    left, right = (encoder(name, tiny, padding_side=side) for side in ("left", "right"))
    np.testing.assert_allclose(left.encode_products(TEXTS), right.encode_products(TEXTS), atol=1e-5)
    assert (left._tokenizer.padding_side, right._tokenizer.padding_side) == ("left", "right")


def test_lengths_padding_and_formats_are_the_cards():
    settings = {name: node(name) for name in CARDS}
    assert {
        name: (s.max_length, s.padding_side, s.dtype.value) for name, s in settings.items()
    } == {
        "blair": (512, "right", "float32"),
        "qwen3": (8192, "left", "bfloat16"),
        "linq": (4096, "right", "float16"),
    }


def test_the_end_token_is_added_once_and_after_all_else(tiny: dict[str, TinyEncoder]):
    as_it_is = encoder("linq", tiny, end_token=None)
    tokens = as_it_is._tokenizer.convert_ids_to_tokens(as_it_is._tokenizer("a")["input_ids"])
    assert "</s>" not in tokens  # which is why the configuration asks for it
    asked = encoder("linq", tiny)
    assert asked._tokenizer("")["input_ids"] == [1, 2]
    vectors = asked.encode_products(TEXTS)
    assert np.abs(vectors - as_it_is.encode_products(TEXTS)).max() > 0.01
    assert asked.recipe != as_it_is.recipe
    # A tokenizer that ends otherwise keeps its own end, before the one that is asked for.
    assert encoder("blair", tiny, end_token="<mask>")._tokenizer("")["input_ids"] == [0, 2, 4]
    with pytest.raises(ConfigError, match=r"end_token='<end>' is not in the vocabulary of model="):
        encoder("qwen3", tiny, end_token="<end>").encode_products(["a"])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_weights_give_float32_vectors_close_by(
    dtype: str, tiny: dict[str, TinyEncoder]
):
    exact = encoder("qwen3", tiny)
    half = encoder("qwen3", tiny, dtype=dtype)
    vectors = half.encode_products(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert half._model[0].auto_model.dtype == getattr(torch, dtype)
    assert (vectors * exact.encode_products(TEXTS)).sum(1).min() > 0.98
    assert half.recipe != exact.recipe


def test_an_encoder_made_from_its_arguments_is_the_same(tiny: dict[str, TinyEncoder]):
    one = encoder("linq", tiny)
    other = type(one)(**one.arguments())
    assert other.arguments() == one.arguments()
    assert other.recipe == one.recipe
    np.testing.assert_array_equal(other.encode_products(TEXTS), one.encode_products(TEXTS))


@pytest.mark.parametrize("name", CARDS)
def test_a_model_without_a_tokenizer_is_named(name: str, tmp_path: Path):
    folder = WRITERS[name](tmp_path).folder
    for file in tmp_path.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ConfigError, match=f"model='{folder}'.*tokenizer"):
        SentenceEncoder(folder, device="cpu").encode_products(["a"])


def test_a_text_without_any_token_has_zeros(tiny: dict[str, TinyEncoder], tmp_path: Path):
    bare = encoder("qwen3", {"qwen3": WRITERS["qwen3"](tmp_path)}, end_token=None)
    bare._tokenizer.backend_tokenizer.post_processor = None  # as tokenizers of some models
    vectors = bare.encode_products(["", "red pen", ""])
    assert vectors[[0, 2]].tolist() == [[0.0] * 32] * 2
    np.testing.assert_allclose(np.linalg.norm(vectors[1]), 1, atol=1e-6)
    assert bare.encode_products([""]).tolist() == [[0.0] * 32]
