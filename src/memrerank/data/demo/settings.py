"""What the demo store is made from."""

from dataclasses import asdict, dataclass

from memrerank.errors import ConfigError
from memrerank.storage import fingerprint

GENERATOR_VERSION = 1  # raise when the same settings give another store


@dataclass(frozen=True)
class DemoSettings:
    """Size and seed of the demo store.

    Attributes:
        seed: every byte of the store follows from it and from the sizes.
        shoppers: at least two for each of `queries_per_category`.
        products: of all categories together.
        queries_per_category: in Electronics and in Beauty_and_Personal_Care each.

    Raises:
        ConfigError: the sizes do not fit together.
    """

    seed: int = 0
    shoppers: int = 1_700
    products: int = 6_400
    queries_per_category: int = 800

    def __post_init__(self) -> None:
        if self.queries_per_category < 1 or self.shoppers < 2 * self.queries_per_category:
            raise ConfigError(
                f"data.shoppers={self.shoppers} is too few for data.queries_per_category="
                f"{self.queries_per_category}; use at least two shoppers a query (one shopper "
                "asks one query) and at least one query"
            )
        if self.products < 600:
            raise ConfigError(
                f"data.products={self.products} is too few for a store in which many products "
                "answer each query; use at least 600"
            )

    @property
    def fingerprint(self) -> str:
        """Sha256 over all that the store's bytes follow from."""
        return fingerprint({"generator": GENERATOR_VERSION, **asdict(self)})
