"""The `baseline` group: one builder per memory source.

Each is the `_target_` of a file in `conf/baseline/`. Hydra calls it with the file's fields and the
context; a project of one's own adds a source with a file and such a function.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memrerank import pipeline, sources
from memrerank.config import Config
from memrerank.errors import ConfigError
from memrerank.memory.extractor import check_card, load_adapter, load_base, read_card
from memrerank.memory.language_model import LanguageModelMemory
from memrerank.memory.oracle import OracleMemory
from memrerank.memory.simple import NoMemory, RawHistory
from memrerank.schema import MemorySource
from memrerank.tracking import find_training_run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """A memory source, and where it comes from (tags of the evaluation's MLflow run)."""

    memories: MemorySource
    origin: dict[str, str] = field(default_factory=dict)


def none(context: Config) -> Source:
    """Query and candidates only."""
    return Source(NoMemory())


def raw(context: Config) -> Source:
    """The history's products in place of a memory."""
    return Source(RawHistory(context.target.name, context.data.max_words))


def oracle(context: Config) -> Source:
    """Demo store only: memories from the hidden preferences."""
    return Source(OracleMemory(sources.demo_settings(context), context.target.name))


def untrained(context: Config) -> Source:
    """The extractor without an adapter."""
    return Source(_language_model(context, adapter=None))


def memrerank(context: Config, adapter: str | None, run_id: str | None) -> Source:
    """The trained extractor: an adapter folder, a run's, or the newest matching run's.

    Raises:
        ConfigError: there is none, or it was trained for another model, target or prompt.
    """
    folder, origin = _find_adapter(context, adapter, run_id)
    prompt = pipeline.make_prompt(context)
    card = read_card(folder)
    check_card(card, pipeline.adapter_card(context, prompt), f"the adapter in {folder}")
    log.info("Memories by the adapter in %s (step %d)", folder, card.step)
    return Source(_language_model(context, folder), {**origin, "adapter": str(folder)})


def _find_adapter(
    cfg: Config, adapter: str | None, run_id: str | None
) -> tuple[Path, dict[str, str]]:
    if adapter is not None:
        return Path(adapter), {}
    labels = pipeline.RunLabels.of(cfg)
    wanted = {
        "kind": "train",
        "category": labels.category,
        "target": labels.target,
        "data": labels.data,
        "extractor": labels.extractor,
    }
    run = find_training_run(cfg.tracking.uri, cfg.tracking.experiment, wanted, run_id)
    if run is None:
        which = f"run {run_id}" if run_id else f"no run with {wanted}"
        raise ConfigError(
            f"baseline=memrerank: no trained extractor in {cfg.tracking.uri} ({which}). Train one "
            f"first: python train.py category={labels.category} target={labels.target}, or give "
            "baseline.adapter=<folder>"
        )
    log.info("Training run %s (%s), %s", run.name, run.id, run.status)
    return run.best_adapter, {"training_run": run.id}


def _language_model(cfg: Config, adapter: Path | None) -> LanguageModelMemory:
    base, tokenizer = load_base(cfg.extractor.model, cfg.extractor.dtype, pipeline.cache_dir(cfg))
    model: Any = base.eval() if adapter is None else load_adapter(base, adapter)
    if cfg.trainer.accelerator in ("gpu", "cuda"):  # in training, Lightning moves the model
        model = model.to("cuda")
    return LanguageModelMemory(
        pipeline.make_engine(cfg, model, tokenizer),
        pipeline.make_prompt(cfg),
        cfg.seed,
        cfg.extractor.batch_size,
        progress=True,
    )
