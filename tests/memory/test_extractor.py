"""The base model, its adapter, and the card that says what an adapter is for."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from tiny import chat_tokenizer, random_llama

from memrerank.errors import ConfigError, DataError
from memrerank.memory.extractor import (
    AdapterCard,
    LoraSettings,
    add_adapter,
    batches,
    check_card,
    load_adapter,
    load_base,
    read_card,
    save_adapter,
)

LORA = LoraSettings(r=4, alpha=8, dropout=0.0, target_modules=["q_proj", "v_proj"])
CARD = AdapterCard("a/model", "Electronics", "wc", "0123abcd", step=7, dev_mrr_at_10=0.25)
TOKENS = torch.arange(2, 30)[None]


def adapted(seed: int, lora: LoraSettings = LORA) -> PeftModel:
    return add_adapter(random_llama(), lora, seed)


def trained(seed: int) -> PeftModel:
    """An adapter that changes the outputs, as a fresh one (whose B is zero) does not."""
    model = adapted(seed)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            weight.data = torch.randn(weight.shape, generator=generator)
    return model


@torch.no_grad()
def logits(model: torch.nn.Module) -> torch.Tensor:
    return model(TOKENS).logits


def lora_weights(model: PeftModel) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in model.named_parameters() if "lora_" in n}


# ---------------------------------------------------------------- base


def test_a_local_folder_is_loaded_frozen_in_the_dtype_asked_for(
    llama_folder: str, cache: Path
) -> None:
    model, tokenizer = load_base(llama_folder, "bfloat16", cache)
    assert model.dtype == torch.bfloat16
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert tokenizer.decode(tokenizer("Crème <x>").input_ids) == "Crème <x>"
    assert not cache.exists()


def test_float32_weights_arrive_as_they_were_written(llama_folder: str, cache: Path) -> None:
    model, _ = load_base(llama_folder, "float32", cache)
    torch.testing.assert_close(logits(model), logits(random_llama()), rtol=0, atol=1e-6)


def test_a_tokenizer_without_a_pad_token_pads_with_its_end(tmp_path: Path, cache: Path) -> None:
    tokenizer = chat_tokenizer()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path)
    random_llama().save_pretrained(tmp_path)
    assert load_base(str(tmp_path), "float32", cache)[1].pad_token == "<|im_end|>"


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path, cache: Path) -> None:
    tokenizer = chat_tokenizer()
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path)
    random_llama().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"extractor\.model=.*no chat template.*instruct"):
        load_base(str(tmp_path), "float32", cache)


@pytest.mark.parametrize("model", ["nobody/no-such-model", "/no/such/folder"])
def test_a_model_that_cannot_be_reached_names_the_setting(model: str, cache: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load_base(model, "float32", cache)
    assert f"extractor.model={model}: cannot be loaded" in str(error.value)
    assert "or a local folder" in str(error.value)


def test_an_unknown_dtype_lists_the_choices(llama_folder: str, cache: Path) -> None:
    message = r"extractor\.dtype=bf16: choose one of bfloat16, float32, float16"
    with pytest.raises(ConfigError, match=message):
        load_base(llama_folder, "bf16", cache)


# ---------------------------------------------------------------- adapter


def test_a_fresh_adapter_changes_nothing_and_is_all_that_learns() -> None:
    model = adapted(0)
    assert torch.equal(logits(model), logits(random_llama()))
    learning = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert set(learning) == set(lora_weights(model))
    # 2 layers x (q: 32 -> 32, v: 32 -> 16), rank 4.
    assert sum(p.numel() for p in learning.values()) == 2 * (4 * (32 + 32) + 4 * (32 + 16))


def test_adapter_weights_come_from_the_seed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first, again, other = (lora_weights(adapted(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(2), expected)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_adapter_weights_stay_in_float32_on_a_bfloat16_base(llama_folder: str, cache: Path) -> None:
    base, _ = load_base(llama_folder, "bfloat16", cache)
    weights = lora_weights(add_adapter(base, LORA, 0))
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_all_linear_reaches_every_projection_but_not_the_head() -> None:
    names = lora_weights(adapted(0, replace(LORA, target_modules=["all-linear"])))
    reached = {name.split(".lora_")[0].rpartition(".")[2] for name in names}
    assert reached == {
        *("q_proj", "k_proj", "v_proj", "o_proj"),
        *("gate_proj", "up_proj", "down_proj"),
    }


def test_modules_that_the_model_lacks_are_named() -> None:
    with pytest.raises(ConfigError, match=r"extractor\.lora=.*query_proj.* not found"):
        adapted(0, replace(LORA, target_modules=["query_proj"]))


def test_a_saved_adapter_gives_the_same_outputs_on_a_fresh_base(tmp_path: Path) -> None:
    model = trained(5)
    save_adapter(model, tmp_path / "adapter", CARD)
    loaded = load_adapter(random_llama(), tmp_path / "adapter")
    assert torch.equal(logits(loaded), logits(model))
    assert not torch.equal(logits(loaded), logits(random_llama()))
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert read_card(tmp_path / "adapter") == CARD
    suffixes = {path.suffix for path in (tmp_path / "adapter").iterdir()}
    assert ".safetensors" in suffixes
    assert not suffixes & {".bin", ".pt", ".pkl"}


def test_saving_again_replaces_the_adapter(tmp_path: Path) -> None:
    save_adapter(trained(5), tmp_path, CARD)
    newer = trained(6)
    save_adapter(newer, tmp_path, replace(CARD, step=9))
    assert torch.equal(logits(load_adapter(random_llama(), tmp_path)), logits(newer))
    assert read_card(tmp_path).step == 9


# ---------------------------------------------------------------- card


def test_a_folder_without_a_card_is_no_adapter(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"{tmp_path} holds no trained memory extractor"):
        read_card(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", json.dumps({"model": "m"}), json.dumps({"model": "m", "flavour": 1})],
)
def test_a_broken_card_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "memrerank.json").write_text(text)
    with pytest.raises(DataError, match=r"memrerank\.json is not readable as an adapter's card"):
        read_card(tmp_path)


@pytest.mark.parametrize(
    ("field", "setting"),
    [("model", "extractor.model"), ("target", "target"), ("prompt_version", "extractor.prompt")],
)
def test_a_card_that_does_not_fit_names_the_setting_and_both_values(
    field: str, setting: str
) -> None:
    wanted = replace(CARD, **{field: "wanted"})
    message = f"{setting}: it has {getattr(CARD, field)}, this run has wanted"
    with pytest.raises(ConfigError, match=f"^here does not fit this run: {message}.*train again"):
        check_card(CARD, wanted, "here")


def test_all_that_differs_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"extractor\.model.*; target.*; extractor\.prompt"):
        check_card(CARD, AdapterCard("other", "Electronics", "w", "9999"), "here")


def test_another_category_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_card(CARD, replace(CARD, step=0, dev_mrr_at_10=None), "here")
        assert caplog.messages == []
        check_card(CARD, replace(CARD, category="Books"), "here")
    assert caplog.messages == ["here was made on Electronics; this run is Books"]


def test_batches() -> None:
    assert batches([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
    assert batches([], 2) == []
