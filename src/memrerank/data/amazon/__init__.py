"""Amazon-Reviews-2023 and Amazon-C4, and the authors' benchmark made of them."""

from memrerank.data.amazon.authors import authors_store
from memrerank.data.amazon.fetching import fetch_missing
from memrerank.data.amazon.files import find_files
from memrerank.data.amazon.store import amazon_store

__all__ = ["amazon_store", "authors_store", "fetch_missing", "find_files"]
