"""Unknown keys on the command line are answered with the known ones."""

from pathlib import Path

import pytest

from memrerank.config import register
from memrerank.overrides import check_keys

CONF = Path(__file__).parents[1] / "conf"
register()


def test_an_unknown_field_is_answered_with_the_fields_and_the_nearest_one() -> None:
    problem = check_keys(CONF, "train", ["category=beauty", "grpo.rollout=8"])
    assert problem is not None
    assert "grpo has no field rollout. Did you mean grpo.rollouts?" in problem
    assert "learning_rate" in problem


def test_fields_of_the_chosen_option_count() -> None:
    assert check_keys(CONF, "evaluate", ["baseline=memrerank", "baseline.adapter=x"]) is None
    problem = check_keys(CONF, "evaluate", ["baseline=none", "baseline.adapter=x"])
    assert problem is not None
    assert "baseline has no field adapter" in problem


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-m", "baseline=none,raw", "eval.max_queries=3"],
        ["hydra.run.dir=x", "+grpo.extra=1", "trainer.max_steps=ten"],
        ["category=electronic", "grpo.rollout=8"],  # Hydra names the categories
        ["category=other", "category.name=Garden tools"],  # a field that must be given
        ["reranker=openai", "reranker.model=some/model"],
        ["grpo.rollouts=[broken"],
    ],
)
def test_everything_else_is_left_to_hydra(arguments: list[str]) -> None:
    assert check_keys(CONF, "train", arguments) is None
