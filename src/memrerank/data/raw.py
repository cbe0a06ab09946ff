"""What every data source comes to: three Parquet files that a benchmark is made from.

A source (`amazon`, `authors`, `table`) reads and checks its own format. From here on nothing knows
which it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from memrerank.data.steps import Artifact


@dataclass(frozen=True, slots=True)
class RawStore:
    """The joined but unfiltered content of a data source, for all its categories.

    targets: one row per query and category that it belongs to, sorted by both:
        query_id VARCHAR, text VARCHAR, user_id VARCHAR, product_id VARCHAR (the positive),
        category VARCHAR, timestamp BIGINT (of the positive's purchase, UTC milliseconds),
        split VARCHAR (train, dev or test; NULL: to be drawn),
        review VARCHAR (the review that the query was written from; NULL: none. It feeds query
        rewriting and the leak check, and nothing else).
    purchases: what the user of a target bought strictly before it, the positive excluded, once
        per product and time, sorted by query, category, time and product:
        query_id VARCHAR, category VARCHAR (both of the target), product_id VARCHAR,
        timestamp BIGINT, within BOOLEAN (bought in the target's category).
    products: the corpus and all products of histories, once each, sorted by id:
        id VARCHAR, category VARCHAR, title VARCHAR, description, features, details (JSON texts),
        item_text VARCHAR (a text that stands in for a missing title), described BOOLEAN (has a
        metadata record), in_items BOOLEAN (is in the item pool), is_positive BOOLEAN (answers a
        query of any category), in_corpus BOOLEAN (is searched, if it has a text).
    counts: what was read and left out on the way, by name.
    category_counts: the same for single categories, by category and name.
    """

    targets: Artifact
    purchases: Artifact
    products: Artifact
    counts: Mapping[str, int] = field(default_factory=dict)
    category_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
