"""Makes a benchmark and reports on it: `python prepare.py category=electronics data=amazon2023`."""

from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig

from memrerank.cli import friendly_errors
from memrerank.config import Config, register
from memrerank.overrides import exit_on_unknown_keys

register()


@hydra.main(config_path="conf", config_name="prepare", version_base="1.3")
@friendly_errors
def main(cfg: Config) -> None:
    """Leaves data, pools and report behind; a sweep has nothing to optimise."""
    from memrerank.prepare import prepare

    prepare(cfg, Path(HydraConfig.get().runtime.output_dir))


if __name__ == "__main__":
    exit_on_unknown_keys(Path(__file__).parent / "conf", "prepare")
    main()
