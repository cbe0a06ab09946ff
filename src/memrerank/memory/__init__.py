"""Histories to Memories: prompts, parsing, quality, and one module per memory source."""
