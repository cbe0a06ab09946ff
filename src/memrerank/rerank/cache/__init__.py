"""Recorded answers of judges: `python -m memrerank.rerank.cache --help`."""

from memrerank.rerank.cache.wrapper import CachedReranker

__all__ = ["CachedReranker"]
