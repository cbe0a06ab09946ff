"""What may be recorded about a run: where its code stood, its settings flat, and no secrets."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memrerank.errors import ConfigError

SECRET_NAME = re.compile(
    r"(?i)(?:^|[^a-z])(?:api)?(?:key|token|secret|password|credential)s?(?:_env)?$"
)
# Keys of well-known services, and passwords inside addresses: secrets whatever they are called.
SECRET_VALUE = re.compile(
    r"\bsk-[\w-]{16,}|\bhf_\w{16,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bAIza[\w-]{30,}"
    r"|\bAKIA[A-Z0-9]{16}|://[^/\s:@]+:[^/\s@]+@"
)
# Under a telling name: a long word with a digit in it. Variable names and `<|tokens|>` are not.
OPAQUE = re.compile(r"(?=\S*\d)(?![A-Z][A-Z0-9_]*$)(?!<.*>$)\S{12,}")


def git_tags(folder: Path) -> dict[str, str]:
    """The commit that `folder` stands at and whether tracked files differ from it.

    Both are `"unknown"` outside a git checkout or without git.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    dirty = "unknown" if changes is None else str(bool(changes)).lower()
    return {"git.commit": commit or "unknown", "git.dirty": dirty}


def _git(folder: Path, *arguments: str) -> str | None:
    """What a git command prints; None where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def flatten(settings: Mapping[Any, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as `{"group.key": text}`; lists become JSON, None becomes `"null"`."""
    return {name: _text(value) for name, value in _leaves(settings, prefix)}


def _leaves(settings: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def refuse_secrets(settings: Mapping[Any, Any]) -> None:
    """Raises where a setting holds a secret, so that none is ever written to a run.

    A value is a secret when it has the form of a known service's key, or when its name ends in
    key, token, secret or password and the value is one long word with digits that is not the name
    of an environment variable.

    Raises:
        ConfigError: names the setting, never its value.
    """
    for name, value in _leaves(settings):
        texts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        if any(_is_secret(name, text) for text in texts):
            raise ConfigError(
                f"{name} holds what looks like a secret, and settings are written to disk and to "
                "MLflow. Put the secret into an environment variable and name that variable here "
                "(for example reranker.api_key_env=OPENAI_API_KEY)"
            )


def _is_secret(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    named = SECRET_NAME.search(name.rsplit(".", 1)[-1])
    return bool(SECRET_VALUE.search(value) or (named and OPAQUE.fullmatch(value)))


def redact(text: str) -> str:
    """`text` with anything that has the form of a secret blanked out."""
    return SECRET_VALUE.sub("[secret]", text)
