"""Trains the memory extractor: `python train.py category=electronics target=wc`."""

from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig

from memrerank.cli import friendly_errors
from memrerank.config import Config, register
from memrerank.overrides import exit_on_unknown_keys

register()


@hydra.main(config_path="conf", config_name="train", version_base="1.3")
@friendly_errors
def main(cfg: Config) -> float | None:
    """Returns the best dev MRR@10, which a Hydra sweeper may optimise; None after a dry run."""
    from memrerank.train import train

    result = train(cfg, Path(HydraConfig.get().runtime.output_dir))
    return None if result is None else result.best_dev_mrr_at_10


if __name__ == "__main__":
    exit_on_unknown_keys(Path(__file__).parent / "conf", "train")
    main()
