"""A recording that several processes write, some of which are killed."""

import multiprocessing
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

from test_cache import QUESTION, Counter, cached, samples

from memrerank.schema import Choice, Comparison


def _record(path: Path, worker: int) -> None:
    reranker = cached(path, Counter())
    for sample in range(10):
        mine = replace(QUESTION, query_id=f"q{worker}", sample=sample)
        reranker.choose([mine, replace(QUESTION, sample=sample)])


def test_several_processes_share_a_new_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_record, args=(tmp_path, i)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with sqlite3.connect(tmp_path / "answers.sqlite") as connection:
        (count,) = connection.execute("SELECT count(*) FROM answers").fetchone()
    assert count == 3 * 10 + 10


def _contend(path: Path, number: int, barrier: Barrier) -> None:
    class Own(Counter):
        streams = True

        def choose(self, comparisons: Sequence[Comparison], on_choice=None) -> list[Choice]:
            choices = [Choice(number, latency=1.0) for _ in comparisons]
            for place, choice in enumerate(choices):
                on_choice(place, choice)
            return choices

    barrier.wait()
    choices = cached(path, Own()).choose(samples(200))
    (path / f"{number}.txt").write_text(str([choice.index for choice in choices]))


def test_processes_that_ask_the_same_follow_the_same_answers(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2, timeout=20)
    workers = [context.Process(target=_contend, args=(tmp_path, i, barrier)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    recorded = cached(tmp_path, None, "readonly").choose(samples(200))
    expected = str([choice.index for choice in recorded])
    assert [(tmp_path / f"{i}.txt").read_text() for i in range(2)] == [expected] * 2


KILLED = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_cache import cached
from test_cache_processes import Slow, of_worker
cached(Path(sys.argv[1]), Slow()).choose(of_worker(int(sys.argv[2]), 20_000))
"""


class Slow(Counter):
    """A judge that streams, and tells on standard output what it has answered."""

    streams = True

    def choose(self, comparisons: Sequence[Comparison], on_choice=None) -> list[Choice]:
        for place, comparison in enumerate(comparisons):
            on_choice(place, Choice(comparison.sample % 2))
            sys.stdout.write(f"{comparison.sample}\n")
            sys.stdout.flush()
        return [Choice(comparison.sample % 2) for comparison in comparisons]


def of_worker(worker: int, n: int) -> list[Comparison]:
    return [replace(QUESTION, query_id=f"q{worker}", sample=sample) for sample in range(n)]


def test_two_processes_that_are_killed_lose_nothing_that_was_answered(tmp_path: Path) -> None:
    for answers in (30, 700):
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        writers = [
            subprocess.Popen([*command, str(i), *sys.path], stdout=subprocess.PIPE, text=True)
            for i in range(2)
        ]
        told = []
        for writer in writers:
            assert writer.stdout is not None
            told.append([writer.stdout.readline() for _ in range(answers)])
        for writer in writers:
            writer.kill()
        for number, writer in enumerate(writers):
            rest, _ = writer.communicate()
            lines = [*told[number], *rest.splitlines(keepends=True)]
            whole = [line for line in lines if line.endswith("\n")]  # told after their commits
            answered = 1 + int(whole[-1])
            replay = cached(tmp_path, None, "readonly").choose(of_worker(number, answered))
            assert [choice.index for choice in replay] == [i % 2 for i in range(answered)]
