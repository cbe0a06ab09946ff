"""What the three tables hold. Everything is read as text; `timestamp` alone must be a number."""

from collections.abc import Mapping
from dataclasses import dataclass, field

TIMESTAMP = "timestamp"  # UTC milliseconds, a whole number
ONLY_CATEGORY = "All"  # of every product, where the products have no column for it


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of one table; others that its file may have are not read.

    required: there in the file, with a value in every row.
    optional: may be absent; the value that every row then has.
    """

    required: tuple[str, ...]
    optional: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the required ones first."""
        return (*self.required, *self.optional)


PURCHASES, PRODUCTS, QUERIES = "purchases", "products", "queries"

TABLES = {
    PURCHASES: Table(("user_id", "product_id", TIMESTAMP)),
    PRODUCTS: Table(("product_id", "title"), {"description": None, "category": ONLY_CATEGORY}),
    QUERIES: Table(
        ("query_id", "text", "user_id", "product_id"),
        {TIMESTAMP: None, "split": None, "review": None},
    ),
}
