"""What is recorded of a run: the commit, flat settings, and never a secret."""

import subprocess
from pathlib import Path

import pytest

from memrerank.errors import ConfigError
from memrerank.provenance import flatten, git_tags, redact, refuse_secrets


def _commit(folder: Path) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    head = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()


def test_git_tags_name_the_commit_and_notice_changes_to_tracked_files_only(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("1\n")
    commit = _commit(tmp_path)
    (tmp_path / "untracked.txt").write_text("outputs\n")
    assert git_tags(tmp_path) == {"git.commit": commit, "git.dirty": "false"}
    (tmp_path / "code.py").write_text("2\n")
    assert git_tags(tmp_path) == {"git.commit": commit, "git.dirty": "true"}


def test_git_tags_say_unknown_without_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = {"git.commit": "unknown", "git.dirty": "unknown"}
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_tags(tmp_path) == unknown
    monkeypatch.setenv("PATH", "")
    assert git_tags(tmp_path) == unknown


def test_flatten_joins_names_and_keeps_every_leaf() -> None:
    settings = {"a": {"b": {"c": 1}, "d": None}, "e": [1, "x"], "f": "text", "g": {}, "h": True}
    assert flatten(settings) == {
        "a.b.c": "1",
        "a.d": "null",
        "e": '[1, "x"]',
        "f": "text",
        "g": "{}",
        "h": "true",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_key", "0123456789abcdef"),
        ("api_key_env", "a1b2c3d4e5f6g7h8"),  # the key itself where its variable belongs
        ("hub_token", "zzzzzzzz9zzzzzzz"),
        ("client-secret", "Tr0ub4dor&3xyz"),
        ("model", "sk-proj-abcdefghijklmnop1234"),
        ("note", "use hf_abcdefghijklmnopqrst here"),
        ("uri", "postgresql://user:hunter2@db.example.org/mlflow"),
    ],
)
def test_secrets_are_refused_by_name_and_never_repeated(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"^reranker\.{name} holds") as caught:
        refuse_secrets({"reranker": {name: value}})
    assert value not in str(caught.value)


def test_a_secret_inside_a_list_is_refused() -> None:
    with pytest.raises(ConfigError, match="extra_keys"):
        refuse_secrets({"extra_keys": ["OPENAI_API_KEY", "0123456789abcdef"]})


def test_ordinary_settings_whose_names_speak_of_keys_pass() -> None:
    settings = {
        "api_key_env": "OPENAI_API_KEY2024",
        "max_completion_tokens": 4096,
        "tokenizer": "Qwen/Qwen2.5-7B-Instruct",
        "pad_token": "<|reserved_special_token_12|>",
        "sort_key": "timestamp",
        "base_url": "http://localhost:8000/v1",
        "keyword_file": "data/2023/keywords.txt",
    }
    refuse_secrets(settings)
    assert all(redact(str(value)) == str(value) for value in settings.values())


def test_redact_blanks_only_the_secret() -> None:
    text = "401 for sk-abcdefghijklmnop1234 at http://me:pw1@host/v1"
    assert redact(text) == "401 for [secret] at http[secret]host/v1"
