"""Products to Pools: sparse and dense first-stage retrieval."""
