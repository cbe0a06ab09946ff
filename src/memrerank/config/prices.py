"""What models behind APIs cost."""

from dataclasses import dataclass


@dataclass
class PriceConfig:
    """What a model costs, in US dollars per million tokens; null: not known."""

    input: float | None = None
    cached_input: float | None = None  # null: what input costs
    output: float | None = None
    batch: float = 1.0  # factor under the Batch API
    date: str = ""  # when this was looked up, YYYY-MM-DD
