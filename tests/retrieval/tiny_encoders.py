"""Encoders of the real architectures with a few thousand random weights, and their tokenizers.

Each tokenizer adds the special tokens that the real one adds, where it adds them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    MistralConfig,
    MistralModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
)

from memrerank.seeding import derive_seed

WORDS = "a an Instruct Given need s shopper retrieve the product that meets it Query red blue green"
WORDS += " pen rake hose with steel for garden kids ' , . : and soft large small"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<|endoftext|>")
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.3,
}
CAUSAL = {"num_key_value_heads": 2, "max_position_embeddings": 9000}


def write_blair(folder: Path) -> str:
    """RoBERTa: `<s> text </s>`, right padding."""
    vocabulary = _vocabulary()
    config = RobertaConfig(
        **SIZES, vocab_size=len(vocabulary), max_position_embeddings=514, pad_token_id=1
    )
    return _write(folder, RobertaModel, config, "<s> $A </s>", pad="<pad>", side="right")


def write_qwen3(folder: Path) -> str:
    """Qwen3: `text <|endoftext|>`, which is the padding too."""
    config = Qwen3Config(**SIZES, **CAUSAL, vocab_size=len(_vocabulary()), head_dim=8)
    return _write(folder, Qwen3Model, config, "$A <|endoftext|>", pad="<|endoftext|>", side="left")


def write_linq(folder: Path) -> str:
    """Mistral: `<s> text </s>`, where `</s>` is the padding too."""
    config = MistralConfig(**SIZES, **CAUSAL, vocab_size=len(_vocabulary()), sliding_window=4096)
    return _write(folder, MistralModel, config, "<s> $A </s>", pad="</s>", side="right")


def _vocabulary() -> dict[str, int]:
    return {word: number for number, word in enumerate([*SPECIAL, *WORDS.split()])}


def _write(folder: Path, model: Any, config: Any, template: str, pad: str, side: str) -> str:
    vocabulary = _vocabulary()
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    added = [(token, vocabulary[token]) for token in SPECIAL if token in template]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=added)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, unk_token="<unk>", padding_side=side
    )
    fast.save_pretrained(folder)
    generator = torch.Generator().manual_seed(derive_seed(0, "tiny encoder", model.__name__))
    network = model(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    network.save_pretrained(folder)
    return str(folder)


WRITERS: Mapping[str, Any] = {"blair": write_blair, "qwen3": write_qwen3, "linq": write_linq}
