"""Measurements in processes of their own: seconds, peak memory, and a table of them."""

import json
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Measured = dict[str, Any]  # seconds, gigabytes, and what else a measurement has to tell


@contextmanager
def clock() -> Iterator[Measured]:
    """Seconds of the block, and the most memory during it that is no page of a mapped file."""
    measured: Measured = {"held_gb": _held_gb()}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            measured["held_gb"] = max(measured["held_gb"], _held_gb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    try:
        yield measured
    finally:
        measured["seconds"] = time.perf_counter() - started
        done.set()
        watcher.join()


def _held_gb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024 / 1e9


def run_alone(script: str, measurement: str, **options: object) -> Measured:
    """What a measurement in a process of its own tells: the script, run with `--measure`."""
    command = [sys.executable, script, "--measure", measurement]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: Measured = json.loads(done.stdout.splitlines()[-1])
    return measured


def tell(measured: Measured) -> None:
    """The other side of `run_alone`: prints what was measured, and this process's peak memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps({**measured, "peak_gb": peak}))


def in_turn(
    run: Callable[[str], Measured], kind: str, names: Sequence[str], repeats: int
) -> dict[str, list[Measured]]:
    """Rounds of the measurements `{kind}_{name}`, each round going through all names."""
    rounds = [[run(f"{kind}_{name}") for name in names] for _ in range(repeats)]
    return dict(zip(names, map(list, zip(*rounds, strict=True)), strict=True))


def print_table(title: str, measured: dict[str, list[Measured]]) -> None:
    """One row each, medians; ratios are ours over the peer's."""
    medians = {
        name: {
            key: statistics.median(one[key] for one in rounds)
            for key in ("seconds", "peak_gb", "held_gb")
        }
        for name, rounds in measured.items()
    }
    print(f"\n### {title}\n")
    print("| | seconds | all rounds | peak RSS GB | of it held GB | seconds, ours / this |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    for name, row in medians.items():
        rounds = ", ".join(f"{one['seconds']:.2f}" for one in measured[name])
        ratio = medians["ours"]["seconds"] / row["seconds"]
        print(
            f"| {name} | {row['seconds']:.2f} | {rounds} | {row['peak_gb']:.2f} "
            f"| {row['held_gb']:.2f} | {ratio:.2f} |",
            flush=True,
        )
