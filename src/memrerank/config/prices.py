"""What models behind APIs cost."""

from dataclasses import dataclass

from omegaconf import MISSING


@dataclass
class PriceConfig:
    """What a model costs, in US dollars per million tokens."""

    input: float = MISSING
    cached_input: float = MISSING
    output: float = MISSING
    batch: float = 1.0  # factor under the Batch API
    date: str = MISSING  # when this was looked up, YYYY-MM-DD
