"""Speed and safety of recorded judge answers, as Markdown tables.

    python benchmarks/judge_cache.py --questions 50000

Questions have five candidates of 120 words and a memory of 60. "hits" are measured end to end
through `CachedReranker.choose`: key, lookup, JSON, Choice. The peers keep the same values under a
sha256 of the whole request, one question at a time: plain sqlite3 with a connection for each
(`sqlite3`), and diskcache where it is installed. Every measurement runs in a process of its own,
peers in turn. Then two processes write one file at once, and processes that write are killed.
"""

import argparse
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from measuring import Measured, clock, in_turn, run_alone, tell

from memrerank.rerank.cache import CachedReranker
from memrerank.rerank.cache.export import export_answers, import_answers
from memrerank.responses import ResponseStore
from memrerank.schema import Choice, Comparison, Memory, Product, Question, Usage
from memrerank.seeding import numpy_generator
from memrerank.storage import fingerprint

PRODUCTS = 2_000
CANDIDATES = 5
SAMPLES = 5  # answers to one question
ROUND = 520  # questions of a round: ten queries' comparisons by knockout
PEER_QUESTIONS = 2_000  # peers are measured on fewer
KILLS = 10
SPACE = {"model": "benchmark"}
CHOICE = Choice(1, usage=Usage(900, 0, 1), cost=0.001, latency=0.3)


class Judge:
    """Answers at once, all together."""

    def choose(self, comparisons: Sequence[Comparison]) -> list[Choice]:
        return [CHOICE] * len(comparisons)


class StreamingJudge:
    """Answers at once, one by one, and tells each on standard output when it is recorded."""

    streams = True

    def __init__(self, tells: bool = False) -> None:
        self.tells = tells

    def choose(
        self, comparisons: Sequence[Comparison], on_choice: Callable[[int, Choice], None]
    ) -> list[Choice]:
        for place in range(len(comparisons)):
            on_choice(place, CHOICE)
            if self.tells:
                os.write(1, f"{place}\n".encode())
        return [CHOICE] * len(comparisons)


def main() -> None:
    """Runs every measurement in a process of its own and prints the tables."""
    args = arguments()
    if args.measure:
        return tell(MEASUREMENTS[args.measure](args))
    with tempfile.TemporaryDirectory() as folder:
        run = partial(run_alone, __file__, questions=args.questions, folder=folder)
        peers = ["sqlite3"] + (["diskcache"] if find_spec("diskcache") else [])
        print(f"\n### Answers per second, {args.questions:,} questions\n")
        print("| | answers/s | all rounds | peak RSS GB | ours / this |\n|---|---:|---|---:|---:|")
        write = in_turn(run, "write", ["chunks", "stream", *peers], args.repeats)
        hits = in_turn(run, "hits", ["batch", "rounds", *peers], args.repeats)
        print_rates("recorded", write, "stream")
        print_rates("replayed", hits, "rounds")
        moved = run("parquet")
        print(
            f"\nParquet, {args.questions:,} answers of {moved['sqlite_mb']:.1f} MB: exported in "
            f"{moved['export']:.1f} s ({moved['parquet_mb']:.1f} MB), imported in "
            f"{moved['import']:.1f} s, peak RSS {moved['peak_gb']:.2f} GB."
        )
        two_writers(Path(folder), args.questions // 5)
        kills(Path(folder), args.questions)
    return None


def print_rates(what: str, measured: dict[str, list[Measured]], ours: str) -> None:
    """A row each, medians; ratios are the rate of `ours` over this one's."""
    rates = {
        name: [one["answers"] / one["seconds"] for one in rounds]
        for name, rounds in measured.items()
    }
    for name, values in rates.items():
        median, peak = statistics.median(values), max(one["peak_gb"] for one in measured[name])
        ratio = statistics.median(rates[ours]) / median
        print(
            f"| {what}: {name} | {median:,.0f} | {', '.join(f'{v:,.0f}' for v in values)} "
            f"| {peak:.2f} | {ratio:.1f} |",
            flush=True,
        )


def questions(n: int) -> list[Comparison]:
    """Comparisons over made-up products; equal calls give equal questions."""
    words = ["lamp", "desk", "steel", "cotton", "wireless", "blue", "kitchen", "battery"]
    draw = numpy_generator(0, "judge cache", "questions")
    texts = [" ".join(draw.choice(words, 120)) for _ in range(PRODUCTS)]
    products = [Product(f"B{i:09}", "A title", text, "Electronics") for i, text in enumerate(texts)]
    memory = Memory(" ".join(draw.choice(words, 60)))
    found: list[Comparison] = []
    while len(found) < n:
        shown = tuple(products[i] for i in draw.integers(PRODUCTS, size=CANDIDATES))
        query = f"q{len(found) // 500}"
        found += (Comparison(query, "a lamp for my desk", memory, shown, s) for s in range(SAMPLES))
    return found[:n]


# ---------------------------------------------------------------- ours


def write_ours(args: argparse.Namespace, judge: Judge | StreamingJudge, name: str) -> Measured:
    """Recording every question in a new file."""
    asked, path = questions(args.questions), args.folder / f"{name}.sqlite"
    path.unlink(missing_ok=True)
    reranker = CachedReranker(judge, path, "readwrite", SPACE)
    with clock() as measured:
        reranker.choose(asked)
    return {**measured, "answers": len(asked)}


def hits_ours(args: argparse.Namespace, size: int) -> Measured:
    """Replaying every question, `size` of them in a call."""
    asked = questions(args.questions)
    reranker = CachedReranker(None, args.folder / "chunks.sqlite", "readonly", SPACE)
    with clock() as measured:
        for start in range(0, len(asked), size):
            reranker.choose(asked[start : start + size])
    assert reranker.hits == len(asked)
    return {**measured, "answers": len(asked)}


def parquet(args: argparse.Namespace) -> Measured:
    """Seconds to and from Parquet."""
    source, file = args.folder / "chunks.sqlite", args.folder / "answers.parquet"
    with clock() as out:
        export_answers(ResponseStore(source, readonly=True), file)
    with clock() as back:
        counts = import_answers(ResponseStore(args.folder / "imported.sqlite"), file)
    assert counts["new"] == args.questions
    sizes = {"sqlite_mb": source.stat().st_size / 1e6, "parquet_mb": file.stat().st_size / 1e6}
    return {"export": out["seconds"], "import": back["seconds"], **sizes}


# ---------------------------------------------------------------- peers


def request_key(comparison: Comparison) -> str:
    """sha256 of the whole request in canonical JSON."""
    shown = [[product.id, product.text] for product in comparison.candidates]
    memory = [comparison.memory.within, comparison.memory.cross]
    return fingerprint(
        [SPACE, comparison.query_id, comparison.query, memory, shown, comparison.draw]
    )


def value_of(comparison: Comparison) -> str:
    """The JSON that a peer keeps."""
    ids = [product.id for product in comparison.candidates]
    return json.dumps({"index": 1, "usage": [900, 0, 1], "cost": 0.001, "products": ids})


def run_sqlite3(args: argparse.Namespace, writes: bool) -> Measured:
    """A connection for each question, in WAL, the rest as SQLite has it (synchronous=FULL)."""
    asked, path = questions(PEER_QUESTIONS), args.folder / "peer.sqlite"
    if writes:
        path.unlink(missing_ok=True)
    with clock() as measured:
        for comparison in asked:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("CREATE TABLE IF NOT EXISTS a (k TEXT PRIMARY KEY, v TEXT)")
                if writes:
                    row = (request_key(comparison), value_of(comparison))
                    connection.execute("INSERT OR IGNORE INTO a VALUES (?, ?)", row)
                else:
                    key = (request_key(comparison),)
                    (text,) = connection.execute("SELECT v FROM a WHERE k = ?", key).fetchone()
                    read_choice(text)
    return {**measured, "answers": len(asked)}


def run_diskcache(args: argparse.Namespace, writes: bool) -> Measured:
    """diskcache with its defaults."""
    from diskcache import Cache

    asked = questions(PEER_QUESTIONS)
    with Cache(str(args.folder / "diskcache")) as cache, clock() as measured:
        if writes:
            cache.clear()
        for comparison in asked:
            if writes:
                cache.set(request_key(comparison), value_of(comparison))
            else:
                read_choice(cache[request_key(comparison)])
    return {**measured, "answers": len(asked)}


def read_choice(text: str) -> Choice:
    """The answer in a peer's JSON."""
    value = json.loads(text)
    return Choice(value["index"], usage=Usage(*value["usage"]), cost=value["cost"], replayed=True)


# ---------------------------------------------------------------- several processes


def writer(folder: Path, name: str, n: int) -> subprocess.Popen[str]:
    """A process that records `n` questions one by one and tells each that is on disk."""
    command = [sys.executable, __file__, "--measure", "tell", "--questions", str(n)]
    command += ["--folder", str(folder), "--name", name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def record_and_tell(args: argparse.Namespace) -> Measured:
    """What `writer` runs."""
    path = args.folder / f"{args.name}.sqlite"
    CachedReranker(StreamingJudge(tells=True), path, "readwrite", SPACE).choose(
        questions(args.questions)
    )
    return {}


def two_writers(folder: Path, n: int) -> None:
    """Two processes that record the same questions at once."""
    writers = [writer(folder, "two", n) for _ in range(2)]
    told = [len(list(answered(one.communicate()[0]))) for one in writers]
    with closing(sqlite3.connect(folder / "two.sqlite")) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM answers").fetchone()
        (state,) = connection.execute("PRAGMA integrity_check").fetchone()
    print(
        f"\nTwo processes asked the same {n:,} questions at once: {told[0]:,} and {told[1]:,} "
        f"answers told, exit codes {[one.returncode for one in writers]}, {rows:,} rows in the "
        f"file, integrity {state}."
    )


def kills(folder: Path, n: int) -> None:
    """Kills a process that records, at random moments, and counts what it had told and is lost."""
    draw = numpy_generator(0, "judge cache", "kills")
    asked, counts, lost = questions(n), [], []
    for kill in range(KILLS):
        one = writer(folder, f"kill{kill}", n)
        assert one.stdout is not None
        first = [one.stdout.readline() for _ in range(int(draw.integers(1, n // 10)))]
        one.send_signal(signal.SIGKILL)
        told = list(answered("".join(first) + one.communicate()[0]))
        path = folder / f"kill{kill}.sqlite"
        replay = CachedReranker(None, path, "readonly", SPACE)
        found = replay.lookup(Question.choose, asked[: len(told)])
        counts.append(len(told))
        lost.append(sum(choice is None for choice in found))
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    print(
        f"\nKilled (SIGKILL) {KILLS} times, after {min(counts):,} to {max(counts):,} answers: "
        f"{sum(lost)} of {sum(counts):,} answers that were told are lost; all files are whole."
    )


def answered(text: str) -> Iterator[int]:
    """The answers that a writer told, each line whole."""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n") and line.strip().isdigit():
            yield int(line)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    for name in ("--measure", "--name"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


MEASUREMENTS: dict[str, Callable[[argparse.Namespace], Measured]] = {
    "write_chunks": lambda args: write_ours(args, Judge(), "chunks"),
    "write_stream": lambda args: write_ours(args, StreamingJudge(), "stream"),
    "write_sqlite3": lambda args: run_sqlite3(args, writes=True),
    "write_diskcache": lambda args: run_diskcache(args, writes=True),
    "hits_batch": lambda args: hits_ours(args, args.questions),
    "hits_rounds": lambda args: hits_ours(args, ROUND),
    "hits_sqlite3": lambda args: run_sqlite3(args, writes=False),
    "hits_diskcache": lambda args: run_diskcache(args, writes=False),
    "parquet": parquet,
    "tell": record_and_tell,
}


if __name__ == "__main__":
    main()
