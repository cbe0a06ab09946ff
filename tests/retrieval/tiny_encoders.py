"""Encoders of the real architectures with a few thousand random weights, and their tokenizers.

Each folder is laid out as the real model's: a byte-level or SentencePiece-like BPE, the same
tokenizer class by name, and the same special tokens asked for in the same files. The weights are
large, so that a wrong token, a wrong position or a missing special token moves every vector.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    MistralConfig,
    MistralModel,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
)

from memrerank.seeding import torch_generator

SENTENCES = (
    "Instruct: Given a shopper's need, retrieve the product that meets it\nQuery: a red pen",
    "a large steel rake for the garden, soft and small, with a blue hose and a green hose for kids",
)
VOCABULARY = 340  # tokens: 256 bytes, the special ones and a few merges
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
}
CAUSAL = {"num_key_value_heads": 2, "max_position_embeddings": 9000}


@dataclass(frozen=True)
class TinyEncoder:
    """A model folder, and the special tokens that its card puts around a text."""

    folder: str
    front: tuple[str, ...]
    back: tuple[str, ...]


def write_blair(folder: Path) -> TinyEncoder:
    """RoBERTa: `<s> text </s>`; positions start after the padding id."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = _byte_level(special)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    names = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    settings = {
        "tokenizer_class": "RobertaTokenizer",
        **dict(zip(names, special, strict=True)),
        "cls_token": "<s>",
        "sep_token": "</s>",
        "add_prefix_space": False,
    }
    config = RobertaConfig(**SIZES, max_position_embeddings=514, pad_token_id=1)
    _write(folder, RobertaModel, config, tokenizer, settings)
    return TinyEncoder(str(folder), ("<s>",), ("</s>",))


def write_qwen3(folder: Path) -> TinyEncoder:
    """Qwen3-Embedding: `text <|endoftext|>`, by tokenizer.json; its `eos_token` is another one."""
    tokenizer = _byte_level(["<|endoftext|>", "<|im_end|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("$A <|endoftext|>", None, [("<|endoftext|>", 0)]),
        ]
    )
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "add_bos_token": False,
    }
    config = Qwen3Config(**SIZES, **CAUSAL, head_dim=8)
    _write(folder, Qwen3Model, config, tokenizer, settings)
    return TinyEncoder(str(folder), (), ("<|endoftext|>",))


def write_linq(folder: Path) -> TinyEncoder:
    """E5-Mistral and its kin: `<s> text </s>`, the latter asked for by `add_eos_token` alone."""
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    _train(tokenizer, special + [f"<0x{byte:02X}>" for byte in range(256)], [])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    settings = {
        "tokenizer_class": "LlamaTokenizer",
        **dict(zip(("unk_token", "bos_token", "eos_token"), special, strict=True)),
        "pad_token": "</s>",
        "add_eos_token": True,
        "legacy": True,
    }
    config = MistralConfig(**SIZES, **CAUSAL, sliding_window=4096)
    _write(folder, MistralModel, config, tokenizer, settings)
    return TinyEncoder(str(folder), ("<s>",), ("</s>",))


def _byte_level(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    _train(tokenizer, special, pre_tokenizers.ByteLevel.alphabet())
    return tokenizer


def _train(tokenizer: Tokenizer, special: list[str], alphabet: list[str]) -> None:
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)


def _write(
    folder: Path, model: Any, config: Any, tokenizer: Tokenizer, settings: Mapping[str, Any]
) -> None:
    generator = torch_generator(0, "tiny encoder", model.__name__)
    network = model(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    network.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


WRITERS = {"blair": write_blair, "qwen3": write_qwen3, "linq": write_linq}
