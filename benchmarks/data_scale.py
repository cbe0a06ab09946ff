"""Speed and memory of the benchmark build on generated stores of real shape, as a Markdown table.

    python benchmarks/data_scale.py --rows 1000000 5000000 20000000

Each store has the rating-only CSVs, the metadata, the queries and the item pool of
Amazon-Reviews-2023 and Amazon-C4 in their own layout, spread over four categories. Each build runs
in a process of its own; its peak memory is what the operating system says of that process. The
first build is of bare files, the second finds every step done.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb

CATEGORIES = ("Electronics", "Beauty_and_Personal_Care", "Home_and_Kitchen", "Pet_Supplies")
ROWS_PER_USER = 10.5  # 571.5M reviews of 54.5M users
ROWS_PER_PRODUCT = 12  # 571.5M reviews of 48.2M products
POOL_SHARE = 0.022  # of the products; Amazon-C4's pool has 1.06M of 48.2M
QUERIES = 21_223  # Amazon-C4
START = 1_400_000_000_000  # UTC milliseconds
WORDS = (
    "wireless charger portable black stainless steel waterproof cotton organic travel "
    "kit adjustable premium set of soft leather cover light weight large small "
    "replacement cable holder brush cream natural oil kitchen garden dog cat toy bag "
    "case stand mount grip filter battery solar compact"
)


def main() -> None:
    """Builds each store and prints a table."""
    args = _arguments()
    if args.build:
        return _build(args.build, args.memory_limit, args.corpus)
    print("| review rows | products | input GB | first build s | rows/s | peak RSS GB | again s |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for rows in args.rows:
        root = args.folder / f"store-{rows}"
        products = write_store(root, rows)
        shutil.rmtree(root / "cache", ignore_errors=True)
        first, again = (_run(root, args) for _ in range(2))
        size = sum(path.stat().st_size for path in root.rglob("*.*") if "cache" not in path.parts)
        print(
            f"| {rows:,} | {products:,} | {size / 1e9:.2f} | {first['seconds']:.1f} "
            f"| {rows / first['seconds']:,.0f} | {first['peak_gb']:.2f} | {again['seconds']:.1f} |",
            flush=True,
        )
        if not args.keep:
            shutil.rmtree(root)
    return None


def write_store(root: Path, rows: int) -> int:
    """Writes a store with `rows` review rows under `root`, unless it is there; its products."""
    users, products = int(rows / ROWS_PER_USER), rows // ROWS_PER_PRODUCT
    if (root / "done").exists():
        return products
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("benchmark/0core/rating_only", "raw/meta_categories", "amazon_c4"):
        (root / folder).mkdir(parents=True)
    with duckdb.connect() as connection:
        _make_tables(connection, rows, users, products)
        for number, category in enumerate(CATEGORIES):
            connection.execute(
                f"""COPY (SELECT user_id, parent_asin, rating, timestamp FROM ratings
                          WHERE category = {number})
                    TO '{root}/benchmark/0core/rating_only/{category}.csv' (HEADER)"""
            )
            connection.execute(
                f"""COPY (SELECT * EXCLUDE (category, number) FROM products
                          WHERE category = {number})
                    TO '{root}/raw/meta_categories/meta_{category}.jsonl' (FORMAT json)"""
            )
        connection.execute(
            f"COPY queries TO '{root}/amazon_c4/test.csv' (HEADER, FORCE_QUOTE (query, ori_review))"
        )
        connection.execute(
            f"""COPY (SELECT parent_asin AS item_id, 'Care' AS category,
                      title || '. ' || description[1] AS metadata FROM products
                      WHERE number % {round(1 / POOL_SHARE)} = 0)
                TO '{root}/amazon_c4/sampled_item_metadata_1M.jsonl' (FORMAT json)"""
        )
    (root / "done").touch()
    return products


def _make_tables(
    connection: duckdb.DuckDBPyConnection, rows: int, users: int, products: int
) -> None:
    """Ratings with skewed users and products, products with texts, and queries.

    All from hashes of row numbers: no random state, the same store every time.
    """
    share = "(hash({0}) % 1000003) / 1000003.0"
    connection.execute(
        f"""CREATE TABLE drawn AS SELECT
                CAST(floor({users} * power({share.format("i * 7 + 1")}, 1.5)) AS BIGINT) AS u,
                CAST(floor({products} * power({share.format("i * 7 + 2")}, 2)) AS BIGINT) AS p,
                1.0 + hash(i * 7 + 3) % 5 AS rating,
                {START} + CAST(hash(i * 7 + 4) % 300000000000 AS BIGINT) AS timestamp
            FROM range({rows}) t(i)"""
    )
    connection.execute(
        """CREATE VIEW ratings AS SELECT
               'A' || upper(substr(md5('u' || u), 1, 27)) AS user_id,
               'B' || upper(substr(md5('p' || p), 1, 9)) AS parent_asin,
               rating, timestamp, p % 4 AS category FROM drawn"""
    )
    connection.execute(f"CREATE TABLE words AS SELECT string_split('{WORDS}', ' ') AS list")
    connection.execute(
        f"""CREATE VIEW products AS SELECT
                'B' || upper(substr(md5('p' || n), 1, 9)) AS parent_asin, n % 4 AS category,
                n AS number, 'Some Category' AS main_category,
                {_sentence("n", 14)} AS title, 4.1 AS average_rating, n % 999 AS rating_number,
                [{_sentence("n + 1", 12)}, {_sentence("n + 2", 12)}] AS features,
                [{_sentence("n + 3", 60)}] AS description, 9.99 AS price,
                [{{'thumb': 'https://example.invalid/' || md5('i' || n) || '.jpg',
                   'large': 'https://example.invalid/' || md5('l' || n) || '.jpg',
                   'variant': 'MAIN'}}] AS images,
                {{'Brand': 'Brand ' || n % 500, 'Weight': n % 90 || ' ounces'}} AS details
            FROM range({products}) t(n), words"""
    )
    # The last purchase of every so-manieth user, until there are enough.
    connection.execute(
        f"""CREATE TABLE queries AS SELECT row_number() OVER () AS qid,
                'I need something ' || {_sentence("p", 20)} AS query,
                'B' || upper(substr(md5('p' || p), 1, 9)) AS item_id,
                'A' || upper(substr(md5('u' || u), 1, 27)) AS user_id,
                5 AS ori_rating, {_sentence("p + 1", 60)} AS ori_review
            FROM (SELECT u, arg_max(p, (timestamp, p)) AS p FROM drawn
                  WHERE u % greatest(1, {users} // {2 * QUERIES}) = 0
                  GROUP BY u ORDER BY hash(u), u LIMIT {QUERIES}), words"""
    )


def _sentence(seed: str, words: int) -> str:
    """SQL for so many words, drawn from the hash of a seed expression."""
    return (
        f"list_aggregate(list_transform(range({words}), "
        f"lambda k: list[CAST(1 + hash(({seed}) * 100 + k) % len(list) AS BIGINT)]), "
        "'string_agg', ' ')"
    )


def _run(root: Path, args: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--build", str(root), "--memory-limit", args.memory_limit]
    command += ["--corpus", args.corpus]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _build(root: Path, memory_limit: str, corpus: str) -> None:
    """Builds the benchmark of Electronics and prints what it took."""
    from memrerank.data.amazon import amazon_store, find_files
    from memrerank.data.benchmark import BenchmarkSettings, build_benchmark
    from memrerank.data.engine import EngineSettings
    from memrerank.data.steps import Steps

    started = time.perf_counter()
    category = CATEGORIES[0]
    steps = Steps(root / "cache", EngineSettings(memory_limit, root / "cache" / "spill"))
    raw = amazon_store(steps, find_files(root, category), category, corpus)
    benchmark = build_benchmark(steps, raw, BenchmarkSettings(category, 20, 120, 0, "amazon2023"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - started,
                "peak_gb": peak / 1e9,
                "queries": benchmark.counts["queries_kept"],
                "products": len(benchmark.corpus),
            }
        )
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--memory-limit", default="2GB", help="of DuckDB")
    parser.add_argument("--corpus", default="c4_1m", choices=("c4_1m", "category", "all"))
    parser.add_argument("--folder", type=Path, default=Path(".cache/data_scale"), help="scratch")
    parser.add_argument("--keep", action="store_true", help="keep the stores for the next time")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
