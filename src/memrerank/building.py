"""From a node of the configuration to the object that it describes."""

from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

from memrerank.errors import ConfigError

NOT_ARGUMENTS = ("name", "recording")  # what a group says of itself, not of how it is made


def plain(node: Any) -> dict[str, Any]:
    """A node of the configuration, resolved, as plain values."""
    values = OmegaConf.to_container(node, resolve=True, enum_to_str=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def build(node: Any, **arguments: Any) -> Any:
    """Instantiates a group's node; `arguments` replace its fields.

    Raises:
        ConfigError: a field has no value.
    """
    if missing := sorted(OmegaConf.missing_keys(node)):
        raise ConfigError(f"{missing[0]} has no value: set {missing[0]}=...")
    fields = OmegaConf.to_container(node, resolve=True)
    assert isinstance(fields, dict)
    fields = {k: v for k, v in fields.items() if k not in NOT_ARGUMENTS and k not in arguments}
    # A partial, so that Hydra hands the arguments on untouched instead of copying them as config.
    return instantiate({**fields, "_partial_": True})(**arguments)


def price_of(prices: Any, node: Any) -> dict[str, Any] | None:
    """What a node's model costs: its own `price`, or else the model's line in `prices`."""
    fields = plain(node)
    own = fields.get("price") or {}
    if own.get("input") is not None or own.get("output") is not None:
        return dict(own)
    found = plain(prices).get(str(fields.get("model")))
    return dict(found) if found else None
