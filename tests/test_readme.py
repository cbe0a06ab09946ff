"""README.md and docs/ name only what exists, and values as they are."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from documents import (
    CODE_SPAN,
    OVERRIDE,
    ROOT,
    blocks,
    commands,
    entry_and_overrides,
    prose,
    read,
    swept,
)
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from hydra.utils import get_object
from omegaconf import OmegaConf

from memrerank.categories import CATEGORIES
from memrerank.config import register
from memrerank.config.data import CorpusKind
from memrerank.schema import Target

DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
LEAST_PATHS = {"README.md": 12, "docs/choices.md": 8, "docs/extending.md": 8}  # else: misread
LINK = re.compile(r"\]\(([^)#:\s]+)\)")
PATH = re.compile(r"\.?[\w-][\w.-]*(?:/[\w.-]+)*/?")
SETTING = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)+")
SUFFIXES = {".py", ".yaml", ".jinja", ".md", ".svg", ".txt", ".db"}
# Settings differ with these.
STORES: list[list[str]] = [
    [],
    ["data=amazon2023"],
    ["data=table"],
    ["reranker=openai", "reranker.model=any"],
]
MADE_BY_RUNS = {".cache", "mlflow.db", "outputs", "data"}


@pytest.fixture(scope="module", autouse=True)
def _hydra() -> Iterator[None]:
    register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        yield


def _is_of_the_project(path: str) -> bool:
    """Whether it starts at a file or folder of the project, or looks like one of its files."""
    top = {path.name for path in ROOT.iterdir()} - MADE_BY_RUNS
    return path.split("/")[0] in top or ("/" in path and Path(path).suffix in SUFFIXES)


@pytest.mark.parametrize("document", ["README.md", "docs/choices.md"])
def test_the_commands_of_a_document_compose(document: str) -> None:
    for command in commands(document):
        if found := entry_and_overrides(command):
            for overrides in swept(found[1]):
                compose(found[0], overrides)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_setting_in_the_text_composes(document: str) -> None:
    paths = [Path(block.path) for block in blocks(document) if block.path]
    made = {f"{path.parent.name}={path.stem}" for path in paths}  # options that the document adds
    for span in CODE_SPAN.findall(prose(document)):
        words = re.sub(r"<\w+>", "value", span).split()
        overrides = [word for word in words if OVERRIDE.fullmatch(word) and word not in made]
        for one in swept(overrides) if overrides else ():
            assert any(_composes((*store, *one)) for store in STORES), one


@cache
def _composes(overrides: tuple[str, ...]) -> bool:
    try:
        compose("train", list(overrides))
    except HydraException:
        return False
    return True


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_setting_that_is_named_is_there(document: str) -> None:
    with_all = ["reranker=openai", "reranker.model=any", "baseline=memrerank"]
    configs = [compose("train", overrides) for overrides in (*STORES, with_all)]
    for span in CODE_SPAN.findall(prose(document)):
        known = span.split(".")[0] in configs[0] and Path(span).suffix not in SUFFIXES
        if known and SETTING.fullmatch(span):
            node, _, name = span.rpartition(".")
            assert any(name in (OmegaConf.select(c, node) or {}) for c in configs), span


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_exists(document: str) -> None:
    made = {b.path for b in blocks(document) if b.path}
    words = [word for span in CODE_SPAN.findall(prose(document)) for word in span.split()]
    words += [word for command in commands(document) for word in command]
    named = [word for word in words if PATH.fullmatch(word) and _is_of_the_project(word)]
    named += [
        str(((ROOT / document).parent / link).resolve().relative_to(ROOT))
        for link in LINK.findall(prose(document))
    ]
    assert len(set(named)) >= LEAST_PATHS.get(document, 0)
    missing = [name for name in named if not (ROOT / name).exists() and name not in made]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    spans = [span.split() for span in CODE_SPAN.findall(prose(document))]
    named = {line[1] for line in [*commands(document), *spans] if line[0] == "make" and line[1:]}
    assert named <= targets


def test_the_table_of_groups_names_every_option() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", read("README.md"), re.MULTILINE)
    told = {group: set(CODE_SPAN.findall(options)) for group, options in rows}
    files = (ROOT / "conf").glob("*/*.yaml")
    options: dict[str, set[str]] = {
        "target": {target.value for target in Target},
        "corpus": {kind.value for kind in CorpusKind},
    }
    for path in files:
        options.setdefault(path.parent.name, set()).add(path.stem)
    categories = told.pop("category")
    assert told == options
    assert {"electronics", "beauty"} <= categories <= CATEGORIES.keys()
    assert f"{len(CATEGORIES)} categories" in read("README.md")


def test_the_tree_is_the_projects() -> None:
    (tree,) = (b.text for b in blocks("README.md") if b.language == "text" and "conf/" in b.text)
    parents: list[str] = []
    named = set()
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        parents[depth:] = [line.split()[0]]
        named.add("".join(parents))
    assert [name for name in named if not (ROOT / name).exists()] == []
    rooms = {path.parent.name for path in (ROOT / "src/memrerank").glob("*/__init__.py")}
    assert {f"src/memrerank/{room}/" for room in rooms} <= named


@pytest.mark.parametrize("name", ["demo-output", "results"])
def test_a_measured_part_is_marked_once(name: str) -> None:
    text = read("README.md")
    assert text.count(f"<!-- {name} -->") == text.count(f"<!-- /{name} -->") == 1
    assert text.index(f"<!-- {name} -->") < text.index(f"<!-- /{name} -->")


def test_the_choices_are_those_of_the_code() -> None:
    """Rows: setting, default, value under experiment=paper; or constant, value."""
    demo, paper = compose("train"), compose("train", ["experiment=paper"])
    row = re.compile(r"^\| `([\w.]+)` \| `([^`]*)` \|(?: `([^`]*)` \|)?", re.MULTILINE)
    rows = row.findall(read("docs/choices.md"))
    assert len(rows) > 40
    differing = {}
    for name, default, under_paper in rows:
        if name.startswith("memrerank."):
            actual = [get_object(name)]
        else:
            actual = [OmegaConf.select(c, name, throw_on_missing=True) for c in (demo, paper)]
        told = [yaml.safe_load(text) for text in (default, under_paper) if text]
        plain = [json.loads(json.dumps(value, default=list)) for value in actual[: len(told)]]
        if plain != told:
            differing[name] = (plain, told)
    assert differing == {}


def test_every_dependency_has_its_reason() -> None:
    table = read("docs/choices.md").partition("## Dependencies")[2]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)[1:]
    files = [path.name for path in ROOT.glob("requirements*.txt")]
    pin = re.compile(r"^([\w.-]+)(?:\[\w+\])?==", re.MULTILINE)
    pinned = {name for file in files for name in pin.findall(read(file))}
    assert sorted(", ".join(rows).split(", ")) == sorted(pinned)
