"""Embedding in several processes of this machine: each has an encoder and a device of its own.

Processes are spawned, so that CUDA works in them. Shards are handed out one at a time, as workers
get free. A worker that fails or dies ends the run, with its message; so does Ctrl-C, which leaves
no worker behind.
"""

import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

from memrerank.errors import MemrerankError
from memrerank.retrieval.embedding import EmbeddingJob, Report


@dataclass(frozen=True, slots=True)
class Worker:
    """A process, and this side of the pipe to it."""

    process: SpawnProcess
    pipe: Connection


def run_workers(job: EmbeddingJob, shards: Sequence[int], workers: int, report: Report) -> None:
    """Makes shards in `workers` processes, at most one a shard.

    Raises:
        MemrerankError: a worker raised one, or died.
        RuntimeError: a worker failed otherwise; the message holds its traceback.
    """
    waiting = iter(shards)
    with _crew(job, workers) as crew:
        for worker in list(crew.values()):
            if not _hand_out(worker, waiting):
                del crew[worker.pipe]
        while crew:
            for pipe in wait(list(crew)):
                assert isinstance(pipe, Connection)
                worker = crew[pipe]
                kind, value = _receive(worker)
                if kind == "rows":
                    report(value)
                elif kind == "failed":
                    raise value
                elif not _hand_out(worker, waiting):
                    del crew[pipe]


def _hand_out(worker: Worker, waiting: Iterator[int]) -> bool:
    """Gives a worker its next shard; False where none is left."""
    if (number := next(waiting, None)) is None:
        return False
    worker.pipe.send(number)
    return True


def _receive(worker: Worker) -> tuple[str, Any]:
    try:
        kind, value = worker.pipe.recv()
    except EOFError as error:
        worker.process.join()
        raise MemrerankError(
            f"an embedding process died (exit code {worker.process.exitcode}; -9 is often a lack "
            "of memory). Lower encoder.batch_size or retrieval.workers and start again: finished "
            "shards are kept"
        ) from error
    return kind, value


@contextmanager
def _crew(job: EmbeddingJob, workers: int) -> Iterator[dict[Connection, Worker]]:
    """Running workers by their pipes; however the block is left, none of them outlives it."""
    context = get_context("spawn")
    threads = max(1, torch.get_num_threads() // workers)
    everyone = []
    try:
        for number in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, job, device_of(job, number), threads), daemon=True
            )
            process.start()
            theirs.close()  # so that a worker's death closes the pipe
            everyone.append(Worker(process, ours))
        yield {worker.pipe: worker for worker in everyone}
    finally:
        for worker in everyone:
            worker.process.terminate()
        for worker in everyone:
            worker.process.join()
            worker.pipe.close()


def device_of(job: EmbeddingJob, number: int) -> str | None:
    """The CUDA device of a worker, in turn; None leaves the encoder's own, where CUDA is not used.

    A device that the encoder's settings spell out (`cpu`, `cuda:1`) is left alone.
    """
    wanted = job.arguments.get("device")
    if wanted not in ("auto", "cuda") or not torch.cuda.is_available():
        return None
    return f"cuda:{number % torch.cuda.device_count()}"


def _work(pipe: Connection, job: EmbeddingJob, device: str | None, threads: int) -> None:
    """The life of a worker: shard numbers in; rows, and `done` for each shard, out."""
    torch.set_num_threads(threads)
    try:
        make = job.open(device)
        while True:
            make(pipe.recv(), lambda rows: pipe.send(("rows", rows)))
            pipe.send(("done", None))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # the parent has gone or is going, and says why
    except MemrerankError as error:
        pipe.send(("failed", error))
    except Exception:
        text = f"an embedding process failed (pid {os.getpid()}):\n{traceback.format_exc()}"
        pipe.send(("failed", RuntimeError(text)))
