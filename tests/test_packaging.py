"""The requirements files say all that the code needs, exactly, and agree with each other."""

import ast
import re
import sys
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PIN = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[\w,-]+\])?==([\w.]+)")


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(file: str) -> dict[str, str]:
    lines = (line.strip() for line in (ROOT / file).read_text().splitlines())
    pins = [line for line in lines if line and not line.startswith(("#", "-r "))]
    found = {pin: PIN.fullmatch(pin) for pin in pins}
    assert all(found.values()), f"{file}: not pinned with ==: {[p for p in found if not found[p]]}"
    return {_canonical(match[1]): match[2] for match in found.values() if match}


def _imports(folder: Path) -> set[str]:
    """Top-level names that the Python files under a folder import, but for stdlib and own ones."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"memrerank"}


def _unpinned(folder: str, *files: str) -> set[str]:
    """What the Python files under a folder import of libraries that no requirements file pins."""
    pins = {name for file in files for name in _pins(file)}
    providers = packages_distributions()
    return {
        name
        for name in _imports(ROOT / folder)
        if not any(_canonical(owner) in pins for owner in providers.get(name, []))
    }


def test_every_library_that_the_package_imports_is_pinned() -> None:
    unpinned = _unpinned("src", "requirements.txt")
    # httpx2 is how the openai client hands over a response: it comes, in its version, with openai.
    # ray is only imported where `retrieval.engine=ray` asks for it.
    assert unpinned <= {"httpx2", "ray"}


def test_every_library_that_the_benchmarks_import_is_pinned() -> None:
    unpinned = _unpinned("benchmarks", "requirements.txt", "requirements-dev.txt")
    # Two files beside them, and a peer that is measured only where it is installed.
    assert unpinned == {"diskcache", "judge_server", "measuring"}


def test_ray_is_an_extra_of_its_own_in_the_version_that_is_tested() -> None:
    assert _pins("requirements-ray.txt") == {"ray": _pins("requirements-dev.txt")["ray"]}
    assert "ray" not in _pins("requirements.txt")


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_the_pins_are_what_is_installed(file: str) -> None:
    pins = _pins(file)
    installed = {name: version(name).partition("+")[0] for name in pins if name != "faiss-cpu"}
    assert installed == {name: pin for name, pin in pins.items() if name != "faiss-cpu"}


def test_faiss_comes_in_one_version_and_never_twice() -> None:
    cpu, gpu = _pins("requirements.txt"), _pins("requirements-gpu.txt")
    assert "faiss-gpu" not in cpu
    assert "faiss-cpu" not in gpu
    assert cpu["faiss-cpu"] == gpu["faiss-gpu"]
    assert "-r requirements" not in re.sub(
        "(?m)^#.*$", "", (ROOT / "requirements-gpu.txt").read_text()
    )


def test_the_commit_hooks_use_the_versions_of_the_checks() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    assert {hook["id"] for hook in hooks} == {"ruff", "ruff-format", "codespell", "mypy"}
    dev = _pins("requirements-dev.txt")
    for hook in hooks:
        for pin in hook.get("additional_dependencies", []):
            name, _, wanted = pin.partition("==")
            assert dev[_canonical(name)] == wanted
