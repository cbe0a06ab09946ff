"""Recorded answers of judges: what there is, to and from Parquet.

    python -m memrerank.rerank.cache stats .cache/judge.sqlite
    python -m memrerank.rerank.cache export .cache/judge.sqlite answers.parquet
    python -m memrerank.rerank.cache import .cache/judge.sqlite answers.parquet
    python -m memrerank.rerank.cache vacuum .cache/judge.sqlite

An export holds what a replay needs: python evaluate.py judge_cache.mode=readonly with the same
judge, prompt and data asks nothing and needs no key.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from memrerank.errors import DataError, MemrerankError
from memrerank.rerank.cache.export import export_answers, import_answers, read_stats
from memrerank.responses import ResponseStore


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; ends the process with a message where it cannot."""
    options = make_parser().parse_args(arguments)
    try:
        options.run(options)
    except MemrerankError as error:
        sys.exit(f"{type(error).__name__}: {error}")


def make_parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m memrerank.rerank.cache",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, text: str, run: object) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("cache", type=Path, help="the SQLite file (judge_cache.path)")
        made.set_defaults(run=run)
        return made

    command("stats", "count answers, by judge, question and result", _stats)
    out = command("export", "write all answers as Parquet", _export)
    out.add_argument("parquet", type=Path, help="the file to write")
    back = command("import", "record the answers of a Parquet file", _import)
    back.add_argument("parquet", type=Path, help="a file that export wrote")
    back.add_argument(
        "--replace", action="store_true", help="take the file's answer where another is recorded"
    )
    command("vacuum", "give unused space back", _vacuum)
    return parser


def _existing(path: Path, *, readonly: bool) -> ResponseStore:
    if not path.is_file():
        raise DataError(f"{path}: no such recording; judge_cache.path says where a run keeps its")
    return ResponseStore(path, readonly=readonly)


def _stats(options: argparse.Namespace) -> None:
    stats = read_stats(_existing(options.cache, readonly=True))
    print(f"{options.cache}: {stats.answers:,} answers, {_megabytes(options.cache):,.1f} MB")
    for name, counts in stats.by.items():
        for value, count in sorted(counts.items()):
            print(f"  {name} {value}: {count:,}")
    print(
        f"  tokens: {stats.input_tokens:,} in ({stats.cached_input_tokens:,} of them from the "
        f"endpoint's cache), {stats.output_tokens:,} out"
    )
    print(f"  cost: {stats.cost_usd:,.4f} US dollars, where the price was known")
    if stats.other:
        print(f"  values that are no judge's answers: {stats.other:,}")


def _export(options: argparse.Namespace) -> None:
    counts = export_answers(_existing(options.cache, readonly=True), options.parquet)
    print(f"{options.parquet}: {counts['exported']:,} answers")
    if counts["skipped"]:
        print(f"left out, no judge's answers: {counts['skipped']:,}")


def _import(options: argparse.Namespace) -> None:
    store = ResponseStore(options.cache)
    counts = import_answers(store, options.parquet, replace=options.replace)
    kept = "replaced" if options.replace else "kept as they were"
    print(
        f"{options.cache}: {counts['new']:,} new answers, {counts['known']:,} known already, "
        f"{counts['conflict']:,} with another answer recorded ({kept})"
    )


def _vacuum(options: argparse.Namespace) -> None:
    store = _existing(options.cache, readonly=False)
    before = _megabytes(options.cache)
    store.vacuum()
    print(f"{options.cache}: {before:,.1f} MB to {_megabytes(options.cache):,.1f} MB")


def _megabytes(path: Path) -> float:
    """Of the file and its log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


if __name__ == "__main__":
    main()
