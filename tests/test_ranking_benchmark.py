"""benchmarks/ranking.py in its smallest setting: whole tables of numbers that can be."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ALGORITHMS = ["knockout", "forest", "full_order", "heapsort", "bubblesort", "pointwise"]


def rows(*options: str) -> list[list[str]]:
    """The cells of the printed table, without its head."""
    command = [sys.executable, str(ROOT / "benchmarks/ranking.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_benchmark_counts_every_algorithm() -> None:
    counted = rows("--orders", "2")
    kinds = [(kind, top) for kind in ("random", "retriever-like") for top in ("10", "5")]
    wanted = [[name, kind, top] for kind, top in kinds for name in ALGORITHMS]
    assert [row[:3] for row in counted] == wanted
    numbers = {tuple(row[:3]): row[3:] for row in counted}
    assert numbers["pointwise", "random", "10"] == ["20.0 (20)", "1.0 (1)", "100.0 (100)"]
    # a pass to place p takes (99 - p) / 4 windows, rounded up: 3 * 25 + 4 * 24 + 3 * 23
    assert numbers["bubblesort", "random", "10"][:2] == ["240.0 (240)", "240.0 (240)"]
    # 25 sets, then 9 paths of 3, one round each
    assert numbers["knockout", "random", "10"][:2] == ["52.0 (52)", "30.0 (30)"]


def test_the_benchmark_times_every_way_behind_an_api() -> None:
    timed = rows("--wall", "--queries", "2", "--timed", "1", "--latency-ms", "2")
    assert [row[0] for row in timed] == [
        "heapsort, one after the other",
        "knockout",
        "forest",
        "full_order",
    ]
    assert "1 queries timed, times 2.0" in timed[0][3]
    for row in timed:
        assert float(row[2]) > 0
        assert float(row[3].split()[0]) > 0
