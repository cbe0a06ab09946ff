"""The local language model as a judge: how often it is right, which place it prefers, how fast.

    python benchmarks/local_judge.py --root <Amazon files>

Setwise instances (chance: 20%) of real or demo data, without a memory and with raw purchases as
one; then the comparisons of whole first rounds, with the shared beginning read once and with every
prompt read whole, in turns. Prints Markdown.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hydra import compose, initialize_config_dir

from memrerank import pipeline
from memrerank.config import register
from memrerank.rerank.asking import Asker
from memrerank.rerank.local import LocalReranker
from memrerank.schema import Benchmark, Comparison, History, Memory, Pool, SetwiseInstance, Split

CONF = Path(__file__).resolve().parent.parent / "conf"
PER_QUERY = 3


@dataclass(frozen=True)
class Material:
    """What is judged."""

    benchmark: Benchmark
    instances: list[SetwiseInstance]
    pools: dict[str, Pool]


def ways(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Methods of choice, with how many orders each averages over."""
    pairs = [one.split(":") for one in options.ways]
    return [(method, int(orders)) for method, orders in pairs]


def load(root: str | None, category: str, cache: str, count: int, seed: int) -> Material:
    """Instances of all splits, at most three a query, from BM25's pools."""
    register()
    overrides = [f"category={category}", f"cache_dir={cache}", "retriever=bm25"]
    if root:
        overrides += ["data=amazon2023", f"data.root={root}", "data.download=false"]
    overrides += ["retrieval.train=[bm25]"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", overrides)
    benchmark = pipeline.make_benchmark(cfg)
    pools = pipeline.make_pools(cfg, benchmark, "bm25")
    found = [
        one
        for split in Split
        for one in pipeline.make_instances(cfg, benchmark, {"bm25": pools}, split)[0]
        if int(one.id.rsplit("/", 1)[1]) < PER_QUERY
    ]
    order = np.random.default_rng(seed).permutation(len(found))[: count or 10]
    instances = [found[place] for place in order]
    return Material(benchmark, instances, pools)


def raw_memory(history: History, words: int, *, repeat: bool = False) -> Memory:
    """The newest titles within the category, at most so many words.

    Args:
        repeat: exactly so many, the titles again and again where the shopper has bought less.
    """
    titles = "; ".join(p.product.title for p in reversed(history.within)).split()
    if repeat and titles:
        titles *= -(-words // len(titles))
    return Memory(" ".join(titles[:words]))


def make_judge(
    model: str, dtype: str, method: str, orders: int, cache: str, **how: object
) -> LocalReranker:
    """A judge that always takes its likeliest candidate."""
    prompt = "setwise" if method == "labels" else "likelihood"
    settings = {
        "temperature": 0.0,
        "seed": 0,
        "batch_size": 16,
        "share_prefix": True,
        "device": None,
    }
    return LocalReranker(
        model=model,
        dtype=dtype,
        prompt=prompt,
        method=method,
        orders=orders,
        cache_dir=cache,
        **(settings | how),
    )


def instance_comparisons(material: Material, words: int) -> list[Comparison]:
    """One comparison an instance."""
    queries = {q.id: q for split in material.benchmark.queries.values() for q in split}
    return [
        Comparison(
            one.query_id,
            queries[one.query_id].text,
            raw_memory(material.benchmark.histories[one.query_id], words) if words else Memory(),
            one.candidates,
        )
        for one in material.instances
    ]


def print_accuracy(material: Material, options: argparse.Namespace) -> None:
    """How often the bought product is chosen, and the share of wins of each place."""
    for words in (0, options.memory_words):
        comparisons = instance_comparisons(material, words)
        for method, orders in ways(options):
            judge = make_judge(options.model, options.dtype, method, orders, options.cache)
            asker = Asker(judge, seed=options.seed, max_reasks=0)
            choices = asker.choose(comparisons)
            right = [
                c.index == i.positive for c, i in zip(choices, material.instances, strict=True)
            ]
            error = np.std(right) / np.sqrt(len(right))
            places = " / ".join(f"{share:.2f}" for share in asker.tally.place_shares("evaluate"))
            memory = f"raw, {words} words" if words else "none"
            found = f"{np.mean(right):.3f} ± {error:.3f}"
            print(f"| {method} | {orders} | {memory} | {found} | {places} |", flush=True)


def print_speed(material: Material, options: argparse.Namespace) -> None:
    """Comparisons a second over the first round of whole pools, shared and whole, in turns."""
    queries = {q.id: q for split in material.benchmark.queries.values() for q in split}
    for words in options.speed_words:
        comparisons = []
        for one in material.instances[: options.queries]:
            memory = raw_memory(material.benchmark.histories[one.query_id], words, repeat=True)
            ids = material.pools[one.query_id].product_ids[: options.pool]
            for start in range(0, len(ids) - 4, 5):
                shown = tuple(material.benchmark.corpus[i] for i in ids[start : start + 5])
                comparisons.append(
                    Comparison(one.query_id, queries[one.query_id].text, memory, shown)
                )
        for method, orders in ways(options):
            rates: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(options.repeats):
                for share in (False, True):
                    rates[share].append(_rate(comparisons, method, orders, share, options))
            shared, whole = (float(np.median(rates[share])) for share in (True, False))
            rates_told = f"{whole:.2f} | {shared:.2f} | {shared / whole:.2f}"
            print(f"| {method} | {orders} | {words} | {rates_told} |", flush=True)


def _rate(
    comparisons: Sequence[Comparison],
    method: str,
    orders: int,
    share: bool,
    options: argparse.Namespace,
) -> float:
    judge = make_judge(
        options.model, options.dtype, method, orders, options.cache, share_prefix=share
    )
    judge.choose(comparisons[:1])  # loads the model
    judge._scores.clear()
    judge._passes._kept.clear()
    started = time.perf_counter()
    judge.choose(comparisons)
    return len(comparisons) / (time.perf_counter() - started)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", help="Amazon files; the demo store without it")
    parser.add_argument("--category", default="electronics")
    parser.add_argument("--model", default="wheel:smollm2-135m-instruct")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--cache", default=".cache")
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--memory-words", type=int, default=60)
    parser.add_argument("--speed-words", type=int, nargs="*", default=[0, 60, 600])
    parser.add_argument("--ways", nargs="+", default=["labels:1", "labels:5", "likelihood:1"])
    parser.add_argument("--queries", type=int, default=2)
    parser.add_argument("--pool", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    material = load(options.root, options.category, options.cache, options.instances, options.seed)
    if options.instances:
        print(f"\n{len(material.instances)} instances of {options.category}, {options.model}\n")
        print("| choice | orders | memory | accuracy | wins by place |")
        print("| --- | ---: | --- | ---: | --- |")
        print_accuracy(material, options)
    print(f"\ncomparisons a second, {options.queries} queries of {options.pool} products\n")
    print("| choice | orders | memory words | whole | shared | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    print_speed(material, options)


if __name__ == "__main__":
    main()
