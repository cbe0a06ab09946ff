"""The leak check over a benchmark's queries, with the titles of its corpus and the raw reviews."""

import duckdb

from memrerank.data.engine import view
from memrerank.data.leaks import (
    LeakInput,
    LeakReport,
    check_leaks,
    shared_words,
    title_frequencies,
)
from memrerank.data.raw import RawStore
from memrerank.schema import Benchmark

IN_USE = "queries in use"
AS_READ = "before rewriting"


def benchmark_leaks(
    connection: duckdb.DuckDBPyConnection, benchmark: Benchmark, raw: RawStore
) -> dict[str, LeakReport]:
    """What the queries tell of their positives; where texts were rewritten, before it as well."""
    view(connection, "targets", [raw.targets.path])
    rows = connection.execute(
        "SELECT query_id, text, review FROM targets WHERE category = ?", [benchmark.category]
    ).fetchall()
    read = {query_id: " ".join(text.split()) for query_id, text, _ in rows}
    reviews = {query_id: review for query_id, _, review in rows}
    queries = [query for split in benchmark.queries.values() for query in split]
    texts = {IN_USE: {query.id: query.text for query in queries}}
    if any(query.text != read[query.id] for query in queries):
        texts[AS_READ] = read
    inputs = {
        name: [
            LeakInput(
                query.id,
                by_id[query.id],
                benchmark.corpus[query.positive_id].title,
                reviews[query.id],
            )
            for query in queries
        ]
        for name, by_id in texts.items()
    }
    words = frozenset().union(*map(shared_words, inputs.values()))
    titles = (product.title for product in benchmark.corpus.values())
    frequencies = title_frequencies(titles, words)
    return {name: check_leaks(found, frequencies) for name, found in inputs.items()}
