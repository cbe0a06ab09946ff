"""The examples of docs/extending.md, applied to a copy of the project, do what the page says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from documents import ENTRY_POINTS, ROOT, Block, blocks, commands, entry_and_overrides

from memrerank.memory import prompting
from memrerank.rerank.algorithms import Rounds
from memrerank.schema import (
    Choice,
    Comparison,
    History,
    Product,
    Purchase,
    Query,
    Rollout,
    RolloutGroup,
    SetwiseInstance,
    Target,
    TrainingCase,
)


def apply(block: Block, root: Path) -> None:
    """Does to a project what a block of docs/extending.md says."""
    assert block.path is not None
    path = root / block.path
    if not block.adds:
        assert not path.exists(), f"{block.path} is in the project already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        return
    lines = block.text.splitlines(keepends=True)
    context = "".join(line[1:] for line in lines if line.startswith(" "))
    added = "".join(line[1:] for line in lines if line.startswith("+"))
    text = path.read_text()
    if context:
        assert text.count(context) == 1, f"{block.path}: {context!r} is not there once"
        path.write_text(text.replace(context, context + added))
    else:
        path.write_text(text + added)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with every block of docs/extending.md applied."""
    root = tmp_path_factory.mktemp("project")
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("conf", "src"):
        shutil.copytree(ROOT / name, root / name, ignore=skipped)
    for name in ENTRY_POINTS:
        shutil.copy(ROOT / name, root)
    for block in blocks("docs/extending.md"):
        if block.path:
            apply(block, root)
    return root


def run(project: Path, *arguments: str, text: str = "") -> str:
    """What Python prints in the project."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(project / "src"),
        "MEMRERANK_CACHE": str(project / "cache"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{project / 'mlflow.db'}",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


COMPOSE_EACH = """
import json, sys
from hydra import compose, initialize_config_dir
from memrerank.config import register
register()
with initialize_config_dir(sys.argv[1], version_base="1.3"):
    for entry, overrides in json.load(sys.stdin):
        cfg = compose(entry, overrides)
        print(cfg.extractor.model, cfg.reward._target_, list(cfg.retrieval.train))
"""


def test_the_options_of_the_examples_compose(project: Path) -> None:
    found = [entry_and_overrides(command) for command in commands("docs/extending.md")]
    jobs = [one for one in found if one and one[0] == "train"]
    printed = run(project, "-c", COMPOSE_EACH, str(project / "conf"), text=json.dumps(jobs))
    smollm2, setwise = "wheel:smollm2-135m-instruct", "memrerank.reward.setwise.SetwiseReward"
    assert printed.splitlines() == [
        f"{smollm2} {setwise} ['bm25', 'titles']",
        f"Qwen/Qwen2.5-0.5B-Instruct {setwise} ['bm25', 'minilm']",
        f"{smollm2} memrerank.reward.log.LogReward ['bm25', 'minilm']",
    ]


def test_the_examples_rank_a_shop_of_their_own(project: Path) -> None:
    """Judge and memory are made so that titles of one colour always tell which tool was bought."""
    garden, evaluation = (c for c in commands("docs/extending.md") if c[1] not in ["train.py"])
    run(project, *garden[1:])
    printed = run(project, *evaluation[1:])
    results = {}
    for path in project.glob("multirun/evaluate/*/*/result.json"):
        result = json.loads(path.read_text())
        results[result["labels"]["baseline"]] = result["metrics"]
    assert results.keys() == {"none", "titles"}
    assert results["titles"]["mrr_at_10"] == 1.0
    assert results["titles"]["memory_words"] == 6.0  # three titles of two words
    assert results["none"]["mrr_at_10"] < 1.0  # four tools answer the query equally well
    assert results["none"]["recall_at_100"] == 1.0
    # 10 places of 16 products in windows of 5 that share one product: ceil((15 - place) / 4) each
    assert results["none"]["calls_per_query"] == sum(-(-(15 - place) // 4) for place in range(10))
    assert "| titles |" in printed


def example(project: Path, path: str) -> Any:
    """The module that a block of docs/extending.md writes."""
    module = ModuleType(Path(path).stem)
    exec(compile((project / path).read_text(), path, "exec"), module.__dict__)
    return module


def played(rounds: Rounds) -> list[str]:
    """The order that an algorithm returns when the lowest id of every set wins."""
    answer = None
    while True:
        try:
            sets = next(rounds) if answer is None else rounds.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = [min(one) for one in sets]


@pytest.mark.parametrize("size", [0, 1, 4, 5, 23])
def test_the_example_ranking_is_exact_with_a_perfect_judge(project: Path, size: int) -> None:
    bubble = example(project, "src/memrerank/rerank/bubble.py").bubble
    ids = [f"p{value:02}" for value in np.random.default_rng(0).permutation(size)]
    order = played(bubble(ids, top_k=3, set_size=5))
    assert order[:3] == sorted(ids)[:3]
    assert sorted(order) == sorted(ids)


class FixedJudge:
    """Finds the first candidate with probability 0.25 after one memory, never after another."""

    def choose(self, comparisons: list[Comparison]) -> list[Choice]:
        raise AssertionError("expected utility draws nothing")

    def distribution(self, comparisons: list[Comparison]) -> list[Choice]:
        return [
            Choice(1, probabilities=(0.25, 0.75) if "rakes" in c.memory.text else (0.0, 1.0))
            for c in comparisons
        ]


def test_the_example_reward_is_the_logarithm(project: Path) -> None:
    reward = example(project, "src/memrerank/reward/log.py").LogReward(
        FixedJudge(), Target.w, utility="expected", quality_weight=0.1
    )
    products = tuple(Product(f"P{n}", f"rake {n}", "", "Garden_Centre") for n in range(2))
    query = Query("q", "a rake", "U", "P0", "Garden_Centre", 1)
    case = TrainingCase(
        query,
        History("U", "Garden_Centre", (Purchase(products[1], 0),), ()),
        SetwiseInstance("q/x/0", "q", "x", products, positive=0),
    )
    texts = [f"<within_category>Likes {what}.</within_category>" for what in ("rakes", "hoses")]
    rollouts = tuple(Rollout((1,), (0.0,), text, truncated=False) for text in texts)
    found = reward([RolloutGroup((1,), rollouts, case)])
    quality = found.components["quality"][0]
    np.testing.assert_allclose(quality, [1.0, 1.0])  # a sound memory has no penalty
    np.testing.assert_allclose(found.total[0], [np.log(0.25) + 0.1, np.log(0.01) + 0.1])


@pytest.mark.parametrize("target", list(Target))
def test_the_example_prompt_shows_the_history(
    project: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        prompting, "PROMPT_FOLDER", project / "src/memrerank/memory/prompts", raising=True
    )
    settings = prompting.PromptSettings("plain", 2, 3, 16)
    bought = [
        Purchase(Product(f"P{n}", f"{colour} rake with handle", "", "Garden_Centre"), n)
        for n, colour in enumerate(["red", "green", "blue"])
    ]
    history = History("U", "Garden_Centre", tuple(bought), tuple(bought[:1]))
    lines = prompting.MemoryPrompt(target, settings).render(history).splitlines()
    assert lines[0] == "Bought in Garden Centre: blue rake with; green rake with."
    assert ("Bought elsewhere: red rake with." in lines) == (target is Target.wc)
    assert "At most 16 words" in lines[-2]
