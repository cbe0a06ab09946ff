"""Going on with a training that was stopped: which checkpoint, and whether it fits."""

import json
import logging
from pathlib import Path
from typing import Any

from memrerank import pipeline
from memrerank.config import Config
from memrerank.errors import ConfigError
from memrerank.memory.extractor import AdapterCard, check_card

log = logging.getLogger(__name__)

RECORD = "run.json"  # beside the checkpoints: the MLflow run, and what is trained


def find_checkpoint(cfg: Config, output_dir: Path) -> Path | None:
    """The checkpoint to resume from; `ckpt_path=last` is the newest of this category and target.

    Raises:
        ConfigError: there is no such file, or it trains something else.
    """
    if cfg.ckpt_path is None:
        return None
    if cfg.ckpt_path == "last":
        runs = output_dir.parent
        found = sorted(runs.glob("*/checkpoints/*.ckpt"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise ConfigError(f"ckpt_path=last: no training under {runs} has left a checkpoint")
        path = found[-1]
    else:
        path = Path(cfg.ckpt_path)
        if not path.is_file():
            raise ConfigError(f"ckpt_path={path}: no such file; give a .ckpt file or `last`")
    card = AdapterCard(**read_record(path.parent.parent)["trains"])
    wanted = pipeline.adapter_card(cfg, pipeline.make_prompt(cfg))
    check_card(card, wanted, f"the checkpoint {path}")
    if card.category != wanted.category:
        raise ConfigError(f"{path} trains on {card.category}; choose that category, or train anew")
    log.info("Resuming from %s", path)
    return path


def read_record(run_dir: Path) -> dict[str, Any]:
    """Which MLflow run a training folder belongs to, and what is trained in it.

    Raises:
        ConfigError: it is not the folder of a training run.
    """
    path = run_dir / RECORD
    if not path.exists():
        raise ConfigError(
            f"{path} is missing: ckpt_path must lie in the `checkpoints` folder of a training run"
        )
    return json.loads(path.read_text())
