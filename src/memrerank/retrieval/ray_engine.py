"""Embedding under Ray Data: the same function per shard, on the machines of a cluster or on this.

Every machine must see the folders of corpus and shards under the same paths (shared storage): the
actors read the one and write to the other, and what travels through Ray is numbers.
"""

import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from memrerank.errors import ConfigError, MemrerankError
from memrerank.retrieval.embedding import EmbeddingJob, Report


class ShardActor:
    """A Ray actor's state: an encoder and a corpus, loaded once."""

    def __init__(self, job: EmbeddingJob) -> None:
        self.make = job.open()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        rows: list[int] = []
        self.make(int(row["shard"]), rows.append)
        return {"shard": row["shard"], "rows": sum(rows)}


def run_ray(job: EmbeddingJob, shards: Sequence[int], workers: int, report: Report) -> None:
    """Makes shards in a pool of `workers` actors, each with a GPU where Ray has enough of them.

    A running Ray is used; else `RAY_ADDRESS`, else one is started here and stopped at the end.

    Raises:
        ConfigError: Ray is not installed.
        MemrerankError: an actor raised one.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(
            "retrieval.engine=ray needs Ray, which is not installed; "
            "run pip install -r requirements-ray.txt, or use retrieval.engine=local"
        )
    with _ray(workers) as ray:
        from ray.data import ActorPoolStrategy, DataContext
        from ray.exceptions import RayError

        DataContext.get_current().enable_progress_bars = False  # ours counts products
        gpus = ray.cluster_resources().get("GPU", 0)
        rows = ray.data.from_items(
            [{"shard": number} for number in shards], override_num_blocks=len(shards)
        ).map(
            ShardActor,
            fn_constructor_args=(job,),
            compute=ActorPoolStrategy(size=workers),
            num_cpus=1,
            num_gpus=1 if gpus >= workers else 0,
        )
        try:
            for row in rows.iter_rows():
                report(row["rows"])
        except RayError as error:
            raise _first_cause(error) from error


def _first_cause(error: BaseException) -> BaseException:
    """The project's own error that an actor raised, if that is what is behind Ray's."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemrerankError):
            return type(cause)(*cause.args) if cause is error else cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    return error


@contextmanager
def _ray(workers: int) -> Iterator[Any]:
    """The module `ray`, initialised; stopped afterwards if it was started here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield ray
        return
    cluster = bool(os.environ.get("RAY_ADDRESS"))
    # An actor and what feeds it take a core each; on one machine they may share the cores.
    resources: dict[str, Any] = (
        {} if cluster else {"num_cpus": max(workers + 1, os.cpu_count() or 1)}
    )
    ray.init(**resources, include_dashboard=False, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()
