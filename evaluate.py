"""Evaluates a memory source: `python evaluate.py target=wc baseline=memrerank`."""

from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig

from memrerank.cli import friendly_errors
from memrerank.config import Config, register
from memrerank.overrides import exit_on_unknown_keys

register()


@hydra.main(config_path="conf", config_name="evaluate", version_base="1.3")
@friendly_errors
def main(cfg: Config) -> float | None:
    """Returns MRR@10; None after a dry run."""
    from memrerank.evaluate import evaluate

    result = evaluate(cfg, Path(HydraConfig.get().runtime.output_dir))
    return None if result is None else result.metrics["mrr_at_10"]


if __name__ == "__main__":
    exit_on_unknown_keys(Path(__file__).parent / "conf", "evaluate")
    main()
