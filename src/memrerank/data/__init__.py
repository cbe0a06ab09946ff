"""Raw stores to a Benchmark: readers, splits, histories, setwise instances."""
