"""How well rankings find what was bought, computed by ir-measures; TREC files for other tools.

Names are those that MLflow accepts: `mrr_at_10` is the paper's primary measure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ir_measures
from ir_measures import RR, Qrel, R, ScoredDoc, Success

from memrerank.errors import DataError
from memrerank.schema import Query, Ranking
from memrerank.storage import atomic_path

MEASURES = {
    "mrr_at_10": RR @ 10,
    "mrr_at_5": RR @ 5,
    "hit_rate_at_1": Success @ 1,
    "hit_rate_at_10": Success @ 10,
    "recall_at_100": R @ 100,  # the ceiling: positives in the pool
}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Each measure of MEASURES, by query and on average."""

    per_query: dict[str, dict[str, float]]  # measure -> query id -> value
    means: dict[str, float]  # measure -> mean over all queries


def evaluate_rankings(rankings: Sequence[Ranking], queries: Sequence[Query]) -> Evaluation:
    """Scores one ranking per query; a query whose positive is not in its pool counts 0.

    Raises:
        DataError: no queries, or rankings that are not one for each of them.
    """
    if not queries:
        raise DataError("no queries to evaluate; look at the benchmark's counts for the reason")
    _check_same(rankings, queries)
    scored = ir_measures.iter_calc(
        list(MEASURES.values()),
        [Qrel(query.id, query.positive_id, 1) for query in queries],
        [ScoredDoc(query_id, product_id, s) for query_id, product_id, _, s in _scores(rankings)],
    )
    names = {measure: name for name, measure in MEASURES.items()}
    # in the order of the queries, 0 where ir-measures has nothing to say (an empty ranking)
    per_query = {name: dict.fromkeys((query.id for query in queries), 0.0) for name in MEASURES}
    for metric in scored:
        per_query[names[metric.measure]][metric.query_id] = float(metric.value)
    means = {name: sum(values.values()) / len(values) for name, values in per_query.items()}
    return Evaluation(per_query, means)


def write_trec_run(path: Path, rankings: Sequence[Ranking], tag: str) -> None:
    """Writes `query Q0 product rank score tag` lines, atomically; white space in `tag` goes."""
    tag = "_".join(tag.split()) or "memrerank"
    with atomic_path(path) as temporary, temporary.open("w") as file:
        for query_id, product_id, rank, score in _scores(rankings):
            file.write(f"{query_id} Q0 {product_id} {rank} {score:g} {tag}\n")


def write_trec_qrels(path: Path, queries: Sequence[Query]) -> None:
    """Writes `query 0 positive 1` lines, atomically."""
    with atomic_path(path) as temporary, temporary.open("w") as file:
        for query in queries:
            file.write(f"{query.id} 0 {query.positive_id} 1\n")


def _scores(rankings: Sequence[Ranking]) -> Iterator[tuple[str, str, int, float]]:
    """Query, product, rank from 1, and a score that falls by 1 a rank.

    Scores are unique because ir-measures breaks ties differently from measure to measure.
    """
    for ranking in rankings:
        for rank, product_id in enumerate(ranking.product_ids, start=1):
            yield ranking.query_id, product_id, rank, float(len(ranking.product_ids) - rank + 1)


def _check_same(rankings: Sequence[Ranking], queries: Sequence[Query]) -> None:
    ranked, asked = [r.query_id for r in rankings], [q.id for q in queries]
    for name, ids in (("ranking", ranked), ("query", asked)):
        if len(set(ids)) != len(ids):
            repeated = next(i for i in ids if ids.count(i) > 1)
            raise DataError(f"more than one {name} has the query id {repeated}")
    odd = sorted(set(ranked) ^ set(asked))
    if odd:
        raise DataError(
            f"{len(ranked)} rankings do not fit {len(asked)} queries: query {odd[0]} is in only "
            f"one of them ({len(odd)} such); rank all queries, and no others"
        )
