"""Command-line keys that do not exist, answered with those that do.

Hydra refuses an unknown key, but does not say which keys there are. This looks at the command line
first; whatever it does not understand is left for Hydra to judge.
"""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf


def check_keys(config_dir: Path, config_name: str, arguments: Sequence[str]) -> str | None:
    """What is wrong with the first unknown key among `node.field=value` arguments, or None."""
    try:
        overrides = OverridesParser.create().parse_overrides([a for a in arguments if "=" in a])
    except HydraException:
        return None
    overrides = [o for o in overrides if not o.key_or_group.startswith("hydra.")]
    fields = [o for o in overrides if "." in o.key_or_group and o.type.name == "CHANGE"]
    if not fields:
        return None
    groups = [_first_choice(o) for o in overrides if "." not in o.key_or_group]
    try:
        with initialize_config_dir(str(config_dir), version_base="1.3"):
            config = compose(config_name, overrides=groups)
    except HydraException:
        return None
    return next((problem for o in fields if (problem := _problem(config, o))), None)


def exit_on_unknown_keys(config_dir: Path, config_name: str) -> None:
    """Ends the process with the message of `check_keys` for this command line."""
    if problem := check_keys(config_dir, config_name, sys.argv[1:]):
        sys.exit(problem)


def _first_choice(override: Override) -> str:
    """`group=a,b` (a sweep) as `group=a`."""
    return str(override.input_line).split(",")[0]


def _problem(config: DictConfig, override: Override) -> str | None:
    parent, _, name = override.key_or_group.rpartition(".")
    node = OmegaConf.select(config, parent, throw_on_missing=False)
    if not isinstance(node, DictConfig) or not OmegaConf.is_struct(node):
        return None
    if name in node.keys():  # noqa: SIM118  # `in node` is false of a field that is still missing
        return None
    known = sorted(str(key) for key in node if not str(key).startswith("_"))
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {parent}.{close[0]}?" if close else ""
    return f"{override.input_line}: {parent} has no field {name}.{hint} Fields: {', '.join(known)}"
