"""Speed and memory of retrieval over generated products of real length, as Markdown tables.

    python benchmarks/retrieval_scale.py --products 1000000 --queries 1000

BM25 against plain bm25s and tantivy on the same text; exact dense search over float16 vectors on
disk against one torch matrix product and top-k over float32 vectors in memory. Every measurement
runs in a process of its own, peers in turn, and what it needs is read before the clock starts; ours
starts with nothing but files. "peak RSS" is the operating system's, file pages that are mapped
included; "of it held" leaves those out that the system may drop at any time.
"""

import argparse
import json
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Measured, clock, in_turn, print_table, run_alone, tell

K = 100
VOCABULARY = 300_000
ZIPF = (1.05, 2.7)  # exponent and shift of Zipf and Mandelbrot's law
PRODUCT_WORDS = (60, 121)
TITLE_WORDS = 14
QUERY_WORDS = (12, 33)  # Amazon-C4's queries have 22 on average
DIMS = 384
SHARD_ROWS = 16_384
SYLLABLES = "ba co di fu ge ha jo ki lu me no pi ra so ti va we xi yo zu er an st ing"
FUNCTION_WORDS = "the and for with of to in is it this a or as on by that be are not will"


def main() -> None:
    """Makes the data, runs every measurement in a process of its own and prints the tables."""
    args = _arguments()
    args.folder = args.root / f"{args.products}-{args.queries}"
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.measure:
        return tell(MEASUREMENTS[args.measure](args))
    run = partial(run_alone, __file__, products=args.products, queries=args.queries, root=args.root)
    if args.part in ("bm25", "all"):
        run("make_texts")
        index = {name: [run(f"index_{name}")] for name in ("ours", "bm25s", "tantivy")}
        print_table(f"BM25 index, {args.products:,} products", index)
        search = in_turn(run, "search", ("ours", "bm25s", "tantivy"), args.repeats)
        print_table(f"BM25 top-{K} of {args.queries:,} queries", search)
        opening = statistics.median(one["opening"] for one in search["ours"])
        print(f"\nOurs includes {opening:.2f} s for checking the index's hashes and opening it.")
        share = run("agreement")["share"]
        print(f"Queries with plain bm25s's scores to 1e-4: {share:.1%}")
    if args.part in ("dense", "all"):
        run("make_vectors")
        dense = in_turn(run, "dense", ("ours", "torch"), args.repeats)
        title = f"Dense top-{K} of {args.queries:,} queries, {args.products:,} x {DIMS}"
        print_table(title, dense)
        share = run("dense_agreement")["share"]
        print(f"\nQueries with the products of the plain top-k, ties aside: {share:.1%}")
    return None


def make_texts(args: argparse.Namespace) -> Measured:
    """Products and queries of made-up words, as frequent as words are."""
    from memrerank.data.corpus import write_corpus
    from memrerank.schema import Product
    from memrerank.seeding import numpy_generator

    generator = numpy_generator(0, "retrieval scale", args.products)
    words = _vocabulary(generator)
    weights = (np.arange(VOCABULARY) + ZIPF[1]) ** -ZIPF[0]
    bounds = np.cumsum(weights) / weights.sum()

    def text(lengths: tuple[int, int]) -> list[str]:
        drawn = np.searchsorted(bounds, generator.random(generator.integers(*lengths)))
        return [words[word] for word in drawn]

    def products() -> Iterator[Product]:
        for number in range(args.products):
            drawn = text(PRODUCT_WORDS)
            title, rest = " ".join(drawn[:TITLE_WORDS]), " ".join(drawn[TITLE_WORDS:])
            yield Product(f"P{number:09}", title, rest, "Shop")

    with clock() as measured:
        write_corpus(args.folder / "products.arrow", products())
        queries = [" ".join(text(QUERY_WORDS)) for _ in range(args.queries)]
        (args.folder / "queries.json").write_text(json.dumps(queries))
    return measured


def _vocabulary(generator: np.random.Generator) -> list[str]:
    """Different words, the most frequent first; English function words among these."""
    found = dict.fromkeys(FUNCTION_WORDS.split())
    while len(found) < VOCABULARY:
        syllables = generator.choice(SYLLABLES.split(), size=generator.integers(2, 5))
        found["".join(syllables)] = None
    return list(found)


def index_ours(args: argparse.Namespace) -> Measured:
    """Reads the corpus from disk, builds the index and keeps it."""
    retriever, corpus = _retriever(args), _corpus(args)
    shutil.rmtree(args.folder / "bm25", ignore_errors=True)
    with clock() as measured:
        retriever.search(corpus, [], K)
    return measured


def index_bm25s(args: argparse.Namespace) -> Measured:
    """Tokenises texts that are in memory and builds the index there."""
    import bm25s

    texts = _corpus(args).texts(0, args.products)
    with clock() as measured:
        index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        index.index(_plain_words(texts, return_ids=True), show_progress=False)
    index.save(args.folder / "bm25s", show_progress=False)
    return measured


def index_tantivy(args: argparse.Namespace) -> Measured:
    """Tokenises texts that are in memory and writes the index, with tantivy's own threads."""
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", tokenizer_name="en_stem", index_option="freq")
    texts = _corpus(args).texts(0, args.products)
    shutil.rmtree(args.folder / "tantivy", ignore_errors=True)
    (args.folder / "tantivy").mkdir()
    with clock() as measured:
        index = tantivy.Index(schema.build(), path=str(args.folder / "tantivy"))
        writer = index.writer()
        for text in texts:
            writer.add_document(tantivy.Document(text=text))
        writer.commit()
        writer.wait_merging_threads()
    return measured


def search_ours(args: argparse.Namespace) -> Measured:
    """Checks and opens the index on disk, tokenises the queries and finds the pools."""
    retriever, corpus, queries = _retriever(args), _corpus(args), _queries(args)
    with clock() as opening:
        retriever.search(corpus, [], K)
    with clock() as measured:
        retriever.search(corpus, queries, K)
    return {**measured, "opening": opening["seconds"]}


def search_bm25s(args: argparse.Namespace) -> Measured:
    """Tokenises the queries and finds the best, with the index in memory."""
    import bm25s

    index = bm25s.BM25.load(args.folder / "bm25s")
    texts = [query.text for query in _queries(args)]
    with clock() as measured:
        words = _plain_words(texts, return_ids=False)
        found = index.retrieve(words, k=K, show_progress=False)
    np.save(args.folder / "bm25s-scores.npy", found.scores)
    return measured


def search_tantivy(args: argparse.Namespace) -> Measured:
    """Parses the queries and finds the best, with the index mapped."""
    import tantivy

    index = tantivy.Index.open(str(args.folder / "tantivy"))
    searcher = index.searcher()
    texts = [query.text for query in _queries(args)]
    with clock() as measured:
        for text in texts:
            searcher.search(index.parse_query(text, ["text"]), K, count=False)
    return measured


def agreement(args: argparse.Namespace) -> Measured:
    """The share of queries whose pool has the scores that plain bm25s found, to 1e-4."""
    retriever, corpus, queries = _retriever(args), _corpus(args), _queries(args)
    rows = {id: row for row, id in enumerate(corpus)}
    pools = retriever.search(corpus, queries, K)
    plain = np.load(args.folder / "bm25s-scores.npy")
    ours = [
        scores[[rows[id] for id in pool.product_ids]]
        for pool, scores in zip(pools, retriever.scores(corpus, queries), strict=True)
    ]
    return {"share": float(np.mean(np.abs(np.array(ours) - plain).max(axis=1) < 1e-4))}


def make_vectors(args: argparse.Namespace) -> Measured:
    """Random vectors of unit length: float16 shards of products, float32 queries."""
    from memrerank.retrieval.vectors import ShardFolder
    from memrerank.seeding import numpy_generator

    generator = numpy_generator(0, "retrieval scale", "vectors")
    with clock() as measured:
        for number, start in enumerate(range(0, args.products, SHARD_ROWS)):
            vectors = _unit(generator, min(SHARD_ROWS, args.products - start))
            ShardFolder(args.folder / "vectors").write(number, vectors.astype(np.float16))
        np.save(args.folder / "query-vectors.npy", _unit(generator, args.queries))
    return measured


def dense_ours(args: argparse.Namespace) -> Measured:
    """Searches the float16 shards on disk, in blocks."""
    from memrerank.retrieval.search import nearest

    store, queries = _store(args), np.load(args.folder / "query-vectors.npy")
    with clock() as measured:
        places = nearest(queries, store, np.arange(store.rows), K)
    np.save(args.folder / "dense-ours.npy", places)
    return measured


def dense_torch(args: argparse.Namespace) -> Measured:
    """One matrix product with all float32 vectors, and the top k of the whole."""
    import torch

    vectors = torch.from_numpy(_store(args).read())
    queries = torch.from_numpy(np.load(args.folder / "query-vectors.npy"))
    with clock() as measured:
        found = (queries @ vectors.T).topk(K)
    np.save(args.folder / "dense-torch.npy", found.indices.numpy())
    return measured


def dense_agreement(args: argparse.Namespace) -> Measured:
    """The share of queries for which both found products of the same scores, to 1e-6."""
    queries, vectors = np.load(args.folder / "query-vectors.npy"), _store(args).read()
    scores = [
        np.einsum("qd,qkd->qk", queries, vectors[np.load(args.folder / f"dense-{name}.npy")])
        for name in ("ours", "torch")
    ]
    return {"share": float(np.mean(np.abs(scores[0] - scores[1]).max(axis=1) < 2e-6))}


def _retriever(args: argparse.Namespace) -> Any:
    from memrerank.retrieval.bm25 import BM25Retriever

    return BM25Retriever(cache_dir=args.folder)


def _corpus(args: argparse.Namespace) -> Any:
    from memrerank.data.corpus import Corpus

    return Corpus.open(args.folder / "products.arrow", f"generated {args.products}")


def _queries(args: argparse.Namespace) -> list[Any]:
    from memrerank.schema import Query

    texts = json.loads((args.folder / "queries.json").read_text())
    return [Query(f"q{n}", text, "u", "P", "Shop", 1) for n, text in enumerate(texts)]


def _plain_words(texts: Sequence[str], return_ids: bool) -> Any:
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    return bm25s.tokenize(
        texts, stopwords="en", stemmer=stemmer, return_ids=return_ids, show_progress=False
    )


def _store(args: argparse.Namespace) -> Any:
    from memrerank.retrieval.vectors import VectorStore

    paths = sorted((args.folder / "vectors").glob("*.npy"))
    return VectorStore([np.load(path, mmap_mode="r") for path in paths])


def _unit(generator: np.random.Generator, rows: int) -> np.ndarray:
    vectors = generator.standard_normal((rows, DIMS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--products", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--part", choices=("bm25", "dense", "all"), default="all")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of each search")
    parser.add_argument("--root", type=Path, default=Path(".cache/retrieval_scale"), help="scratch")
    parser.add_argument("--measure", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    return parser.parse_args()


MEASUREMENTS: dict[str, Callable[[argparse.Namespace], Measured]] = {
    function.__name__: function
    for function in (
        make_texts,
        index_ours,
        index_bm25s,
        index_tantivy,
        search_ours,
        search_bm25s,
        search_tantivy,
        agreement,
        make_vectors,
        dense_ours,
        dense_torch,
        dense_agreement,
    )
}


if __name__ == "__main__":
    main()
