"""From a composed configuration to the objects that training and evaluation share."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf
from transformers import PreTrainedTokenizerBase

from memrerank import judging, sources
from memrerank.building import plain
from memrerank.config import Config
from memrerank.data.instances import sample_instances
from memrerank.errors import ConfigError
from memrerank.memory.extractor import AdapterCard
from memrerank.memory.prompting import MemoryPrompt, PromptSettings
from memrerank.memory.sampling import Policy, Sampling, TransformersRolloutEngine
from memrerank.retrieval.pools import Retriever, load_pools
from memrerank.schema import (
    Benchmark,
    Pool,
    Query,
    SetwiseInstance,
    Split,
)
from memrerank.tracking import Run

log = logging.getLogger(__name__)


def cache_dir(cfg: Config) -> Path:
    """The folder of downloads, pools and vectors."""
    return Path(cfg.cache_dir)


def settings(cfg: Config) -> dict[str, Any]:
    """The whole configuration, resolved, as plain values."""
    return plain(cfg)


def make_benchmark(cfg: Config) -> Benchmark:
    """The benchmark of the chosen category."""
    return sources.make_data(cfg).benchmark


def retriever_node(cfg: Config, name: str) -> Any:
    """The node of that name: the evaluated one as configured, or one of `retrievers`.

    Raises:
        ConfigError: there is none of that name.
    """
    node = cfg.retriever if name == cfg.retriever.name else cfg.retrievers.get(name)
    if node is None:
        raise ConfigError(f"retrieval.train: no retriever {name}; known: {list(cfg.retrievers)}")
    return node


def make_retriever(cfg: Config, name: str) -> Retriever:
    """The retriever of that name.

    Raises:
        ConfigError: there is none of that name.
    """
    retriever: Retriever = instantiate(retriever_node(cfg, name))
    return retriever


def check_training_retrievers(cfg: Config) -> None:
    """Refuses held-out and unknown retrievers for training before any of them is loaded.

    A held-out retriever may neither fill training instances nor rank the dev queries that choose
    the checkpoint: both would show it to what it is later to be a fair test of.

    Raises:
        ConfigError: names the retriever, and the switch or the known ones.
    """
    uses = [(name, "retrieval.train", "Remove it") for name in cfg.retrieval.train]
    elsewhere = f"Train with another retriever= and evaluate with retriever={cfg.retriever.name}"
    uses.append((cfg.retriever.name, "retriever", elsewhere))
    for name, setting, remedy in uses:
        if retriever_node(cfg, name).held_out and not cfg.retrieval.allow_held_out:
            raise ConfigError(
                f"{setting}: {name} is held out: it may be evaluated, but neither trained on nor "
                f"used to choose the checkpoint. {remedy}, or set retrieval.allow_held_out=true"
            )


def make_pools(cfg: Config, benchmark: Benchmark, name: str) -> dict[str, Pool]:
    """Top-k pools of every query from one retriever, cached on disk."""
    return load_pools(
        benchmark,
        make_retriever(cfg, name),
        k=cfg.retrieval.pool_size,
        cache_dir=cache_dir(cfg),
    )


def make_instances(
    cfg: Config,
    benchmark: Benchmark,
    pools: dict[str, dict[str, Pool]],
    split: Split,
    queries: Sequence[Query] | None = None,
) -> tuple[list[SetwiseInstance], dict[str, int]]:
    """Setwise instances of a split from every training retriever, and their counts."""
    per_pair = cfg.instances.train if split is Split.train else cfg.instances.dev
    instances: list[SetwiseInstance] = []
    counts: dict[str, int] = {}
    for name in cfg.retrieval.train:
        sample = sample_instances(
            benchmark.queries[split] if queries is None else queries,
            pools[name],
            benchmark.corpus,
            per_pair=per_pair,
            seed=cfg.data.split_seed,
        )
        instances += sample.instances
        counts |= {f"{split.value}/{name}/{key}": value for key, value in sample.counts.items()}
    return instances, counts


def make_prompt(cfg: Config) -> MemoryPrompt:
    """The extractor's prompt for the chosen target."""
    prompt = cfg.extractor.prompt
    return MemoryPrompt(
        cfg.target.name,
        PromptSettings(
            style=prompt.style,
            max_purchases=prompt.max_purchases,
            max_product_words=prompt.max_product_words,
            max_memory_words=prompt.max_memory_words,
            answer_prefix=prompt.answer_prefix,
        ),
    )


def make_engine(
    cfg: Config, model: Policy, tokenizer: PreTrainedTokenizerBase
) -> TransformersRolloutEngine:
    """What draws the extractor's completions, in training as in evaluation."""
    sampling = cfg.extractor.sampling
    return TransformersRolloutEngine(
        model,
        tokenizer,
        Sampling(sampling.max_new_tokens, sampling.temperature, sampling.top_p),
        cfg.extractor.prompt.answer_prefix,
        cfg.extractor.pad_multiple,
    )


def adapter_card(cfg: Config, prompt: MemoryPrompt) -> AdapterCard:
    """What an adapter of this configuration is trained for."""
    return AdapterCard(
        model=cfg.extractor.model,
        category=cfg.category.name,
        target=cfg.target.name.value,
        prompt_version=prompt.version,
    )


@dataclass(frozen=True)
class RunLabels:
    """The choices that name a run, as tags and in its name."""

    category: str
    target: str
    data: str
    retriever: str
    extractor: str
    reranker: str
    ranking: str
    seed: str

    @classmethod
    def of(cls, cfg: Config) -> "RunLabels":
        """The labels of a configuration."""
        return cls(
            category=cfg.category.label,
            target=cfg.target.name.value,
            data=cfg.data.name,
            retriever=cfg.retriever.name,
            extractor=cfg.extractor.model,
            reranker=cfg.reranker.name,
            ranking=judging.ranking_label(cfg),
            seed=str(cfg.seed),
        )


def log_config(cfg: Config, run: Run) -> None:
    """The configuration, and the prompts of extractor and judge, into the record."""
    chosen = settings(cfg)
    # The price table is long and mostly of other models: it is in the file alone.
    run.log_params({name: value for name, value in chosen.items() if name != "prices"})
    run.log_text(OmegaConf.to_yaml(OmegaConf.create(chosen)), "config.yaml")
    run.log_text(make_prompt(cfg).source, "prompts/extractor.jinja")
    if (prompt := judging.prompt_file(cfg)) is not None:
        run.log_text(prompt.read_text(), "prompts/judge.jinja")
