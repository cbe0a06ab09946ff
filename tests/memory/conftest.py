"""One tiny chat model for all tests of the extractor."""

from pathlib import Path

import pytest
from tiny import chat_tokenizer, random_llama, write_llama
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return chat_tokenizer()


@pytest.fixture(scope="session")
def llama() -> LlamaForCausalLM:
    """Shared: no test may change it."""
    return random_llama()


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_llama(tmp_path_factory.mktemp("llama") / "tiny"))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
