"""Language models and an encoder of a few thousand random weights, in folders like the hub's.

The product's own code loads them (`extractor.model=<folder>`, `encoder.model=<folder>`), and they
run in milliseconds. Every writer returns its folder and writes it once.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from memrerank.memory.prompting import PROMPT_FOLDER

START, END = "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 384  # 256 bytes, 2 special tokens, and merges
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.3,  # large, so that the next token is neither certain nor uniform
}


def llama_config(vocabulary: int = VOCABULARY, end: int | list[int] = 1) -> LlamaConfig:
    """A Llama of two layers whose completions end at the token `end`."""
    return LlamaConfig(**SIZES, vocab_size=vocabulary, eos_token_id=end, bos_token_id=None)


def random_llama(config: LlamaConfig | None = None, seed: int = 0) -> LlamaForCausalLM:
    """The same float32 weights for the same seed."""
    return _seeded(LlamaForCausalLM, config or llama_config(), seed)


def random_qwen2(seed: int = 0) -> Qwen2ForCausalLM:
    """The paper's architecture (Qwen2.5), at the same size, with its head tied to its input."""
    config = Qwen2Config(
        **SIZES,
        vocab_size=VOCABULARY,
        eos_token_id=1,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    return _seeded(Qwen2ForCausalLM, config, seed)


def chat_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE over the prompts' own words: every text survives a round trip."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    prompts = (path.read_text() for path in sorted(PROMPT_FOLDER.glob("*/*.jinja")))
    tokenizer.train_from_iterator(prompts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=CHAT_TEMPLATE,
        eos_token=END,
        pad_token=END,  # as in SmolLM2: padding must never be taken for the end
        additional_special_tokens=[START],
    )


def write_llama(folder: Path) -> Path:
    """A chat model as `extractor.model` takes it."""
    if not (folder / "config.json").exists():
        tokenizer = chat_tokenizer()
        tokenizer.save_pretrained(folder)
        random_llama(llama_config(len(tokenizer), tokenizer.eos_token_id)).save_pretrained(folder)
    return folder


def write_encoder(folder: Path) -> Path:
    """A one-layer BERT over the same tokens, as `encoder.model` takes it."""
    if not (folder / "config.json").exists():
        chat_tokenizer().save_pretrained(folder)
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            initializer_range=0.5,
        )
        _seeded(BertModel, config, 0).save_pretrained(folder)
    return folder


def _seeded(kind: type[PreTrainedModel], config: PretrainedConfig, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config).eval()
