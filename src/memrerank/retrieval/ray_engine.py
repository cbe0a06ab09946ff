"""Embedding under Ray Data: the same function per shard, on the machines of a cluster or on this.

Every machine must see the folders of corpus and shards under the same paths (shared storage): the
actors read the one and write to the other, and what travels through Ray is numbers.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from memrerank import errors
from memrerank.errors import ConfigError, MemrerankError
from memrerank.retrieval.embedding import EmbeddingJob, Report


class ShardActor:
    """A Ray actor's state: encoder and corpus, loaded with the first shard."""

    def __init__(self, job: EmbeddingJob) -> None:
        self.job = job

    @cached_property
    def make(self) -> Callable[[int, Report], None]:
        """Makes the shard of a number."""
        return self.job.open()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Makes a row's shard; errors of the project's own come back as values.

        Ray wraps what an actor raises in its own exceptions, with no way back to the first.
        """
        rows: list[int] = []
        try:
            self.make(int(row["shard"]), rows.append)
        except MemrerankError as error:
            return {"rows": 0, "error": type(error).__name__, "message": str(error)}
        return {"rows": sum(rows), "error": "", "message": ""}


def run_ray(job: EmbeddingJob, shards: Sequence[int], workers: int, report: Report) -> None:
    """Makes shards in a pool of `workers` actors, each with a GPU where Ray has enough of them.

    A running Ray is used; else `RAY_ADDRESS`, else one is started here and stopped at the end.

    Raises:
        ConfigError: Ray is not installed.
        MemrerankError: an actor raised one.
        RayError: an actor failed otherwise; the message holds its traceback.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(
            "retrieval.engine=ray needs Ray, which is not installed; "
            "run pip install -r requirements-ray.txt, or use retrieval.engine=local"
        )
    with _ray(workers) as ray:
        from ray.data import ActorPoolStrategy, DataContext

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
        if (failed := _first_failure(rows, report)) is not None:
            raise getattr(errors, failed["error"], MemrerankError)(failed["message"])


def _first_failure(rows: Any, report: Report) -> dict[str, Any] | None:
    """Runs a dataset to its end or to its first failed row, which is returned.

    Returning drops the iterator, on which Ray stops the actors. An exception from here would hold
    on to it, and with it the actors and their cores.
    """
    for row in rows.iter_rows():
        if row["error"]:
            return dict(row)
        report(row["rows"])
    return None


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
