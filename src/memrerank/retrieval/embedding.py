"""Embedding a corpus: cut into shards, each made once, by this process, by several or by Ray.

What happens to a shard is one function, `encode_shard`, whoever runs it. Shards that are there and
whole are not made again, so a run that was killed goes on where it stopped, shard by shard.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from memrerank.data.corpus import Corpus, as_corpus, write_corpus
from memrerank.errors import ConfigError, DataError
from memrerank.retrieval.vectors import ShardFolder, VectorStore
from memrerank.schema import Product
from memrerank.storage import fingerprint, write_json

log = logging.getLogger(__name__)

FORMAT = 1  # raise it when the vectors of old shall not be read any more
CHUNK = 1024  # texts per call of the encoder: small enough for progress, large against a batch
PROGRESS_FROM = 2_000  # products; shorter work is over before a bar would tell anything
ENGINES = ("local", "ray")
DTYPES = ("float16", "float32")

Report = Callable[[int], Any]  # is told how many more products are done


class Encoder(Protocol):
    """What dense retrieval needs of an encoder: L2-normalised float32 vectors [n, d]."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        """All that the vectors depend on; JSON-serialisable."""

    def arguments(self) -> dict[str, Any]:
        """Plain keyword arguments with which `type(self)` makes an encoder like this one."""

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray: ...

    def encode_products(self, texts: Sequence[str]) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """How a corpus is embedded.

    engine: `local` (processes of this machine) or `ray` (Ray Data: a cluster, or this machine).
    workers: processes or actors, each with an encoder of its own; with CUDA, each on one device.
    shard_rows: products per shard, the unit of embedding and of resuming.
    dtype: of the vectors that are kept, `float16` or `float32`.

    Raises:
        ConfigError: names the setting that cannot work.
    """

    engine: str = "local"
    workers: int = 1
    shard_rows: int = 16_384
    dtype: str = "float16"

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("retrieval.engine", self.engine, ENGINES),
            ("retriever.vector_dtype", self.dtype, DTYPES),
        ):
            if value not in choices:
                raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}")
        for name, number in (
            ("retrieval.workers", self.workers),
            ("retrieval.shard_rows", self.shard_rows),
        ):
            if number < 1:
                raise ConfigError(f"{name}={number} will not do; set it to 1 or more")


@dataclass(frozen=True, slots=True)
class ShardMaker:
    """The cut of a corpus into shards, and the way to the vectors of each."""

    encoder: Encoder
    corpus: Corpus
    shard_rows: int
    dtype: str

    @property
    def sizes(self) -> list[int]:
        """Rows of each shard; all but the last are full."""
        starts = range(0, len(self.corpus), self.shard_rows)
        return [min(self.shard_rows, len(self.corpus) - start) for start in starts]

    def encode(self, number: int, report: Report) -> np.ndarray:
        """The vectors [rows, d] of a shard."""
        start = number * self.shard_rows
        texts = self.corpus.texts(start, min(start + self.shard_rows, len(self.corpus)))
        return encode_shard(self.encoder, texts, self.dtype, report)


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """What another process needs in order to make shards: plain values alone.

    It may run on another machine if `corpus` and `folder` are on storage that both machines see.
    """

    encoder_type: type
    arguments: dict[str, Any]
    corpus: Path
    fingerprint: str  # of the corpus
    folder: Path
    shard_rows: int
    dtype: str

    def open(self, device: str | None = None) -> Callable[[int, Report], None]:
        """Loads encoder and corpus; the result makes the shard of a number and keeps it.

        Args:
            device: a torch device to run on, in place of the encoder's own.
        """
        moved = {} if device is None else {"device": device}
        encoder = self.encoder_type(**{**self.arguments, **moved})
        corpus = Corpus.open(self.corpus, self.fingerprint)
        maker = ShardMaker(encoder, corpus, self.shard_rows, self.dtype)
        folder = ShardFolder(self.folder)
        return lambda number, report: folder.write(number, maker.encode(number, report))


def embed_corpus(
    encoder: Encoder,
    corpus: Mapping[str, Product],
    cache_dir: Path | None,
    settings: EmbeddingSettings,
) -> VectorStore:
    """The vectors of all products, in the order of their ids, read from disk or made.

    Args:
        cache_dir: where shards are kept, in `embeddings/{key}/`; None keeps them in memory alone.

    Raises:
        ConfigError: several workers or Ray without a `cache_dir`; Ray is not installed.
        DataError: the corpus is empty, or a vector does not fit `settings.dtype`.
    """
    maker = ShardMaker(encoder, as_corpus(corpus), settings.shard_rows, settings.dtype)
    sizes = maker.sizes
    if not sizes:
        raise DataError("the corpus has no products, so there is nothing to embed or search")
    if cache_dir is None:
        _check_that_memory_will_do(settings)
        with _progress(sum(sizes)) as bar:
            return VectorStore([maker.encode(number, bar.update) for number in range(len(sizes))])
    folder = _shard_folder(maker, cache_dir)
    shards = [folder.load(number, rows, settings.dtype) for number, rows in enumerate(sizes)]
    if missing := [number for number, shard in enumerate(shards) if shard is None]:
        log.info("embedding: %d of %d shards are to be made", len(missing), len(sizes))
        with _progress(sum(sizes[number] for number in missing)) as bar:
            _make(maker, folder, cache_dir, missing, settings, bar.update)
        for number in missing:
            shards[number] = folder.load(number, sizes[number], settings.dtype)
    whole = [shard for shard in shards if shard is not None]
    if len(whole) < len(sizes):
        raise DataError(
            f"{len(sizes) - len(whole)} shards under {folder.folder} are damaged as soon as they "
            "are written; check the disk, and that nothing else writes there"
        )
    return VectorStore(whole)


def encode_shard(encoder: Encoder, texts: Sequence[str], dtype: str, report: Report) -> np.ndarray:
    """Vectors [n, d] of texts in `dtype`; the texts are encoded longest first.

    Batches of like lengths waste little on padding, and the largest comes first, so that a batch
    size that does not fit the memory fails at once.

    Raises:
        DataError: a vector is not finite in `dtype`.
    """
    longest_first = np.argsort([-len(text) for text in texts], kind="stable")
    vectors: np.ndarray | None = None
    for start in range(0, len(texts), CHUNK):
        places = longest_first[start : start + CHUNK]
        chunk = encoder.encode_products([texts[place] for place in places])  # [c, d]
        if vectors is None:
            vectors = np.empty((len(texts), chunk.shape[1]), dtype=dtype)
        with np.errstate(over="ignore"):  # found and reported right below
            vectors[places] = chunk
        if not (finite := np.isfinite(vectors[places]).all(axis=1)).all():
            raise DataError(
                f"the encoder's vector of {texts[places[int(np.argmin(finite))]][:80]!r} is not "
                f"finite in {dtype}; set encoder.dtype=float32 and vector_dtype=float32"
            )
        report(len(places))
    assert vectors is not None, "a shard has at least one row"
    return vectors


def _check_that_memory_will_do(settings: EmbeddingSettings) -> None:
    if settings.engine != "local" or settings.workers > 1:
        raise ConfigError(
            f"retrieval.engine={settings.engine} with retrieval.workers={settings.workers} needs "
            "the retriever's cache_dir: its processes hand vectors over as files. Set cache_dir, "
            "or use retrieval.engine=local and retrieval.workers=1"
        )


def _shard_folder(maker: ShardMaker, cache_dir: Path) -> ShardFolder:
    """The folder named after all that the shards depend on, with a file that says what that is."""
    made_from = {
        "format": FORMAT,
        "encoder": dict(maker.encoder.recipe),
        "corpus": maker.corpus.fingerprint,
        "dtype": maker.dtype,
        "shard_rows": maker.shard_rows,
    }
    folder = cache_dir / "embeddings" / fingerprint(made_from)
    write_json(folder / "made_from.json", made_from)
    return ShardFolder(folder)


def _make(
    maker: ShardMaker,
    folder: ShardFolder,
    cache_dir: Path,
    missing: Sequence[int],
    settings: EmbeddingSettings,
    report: Report,
) -> None:
    """Makes the missing shards and keeps them."""
    if settings.engine == "local" and settings.workers == 1:
        for number in missing:
            folder.write(number, maker.encode(number, report))
        return
    # Imported here: runs in one process need neither, and both import from this module.
    from memrerank.retrieval.ray_engine import run_ray
    from memrerank.retrieval.workers import run_workers

    job = EmbeddingJob(
        encoder_type=type(maker.encoder),
        arguments=maker.encoder.arguments(),
        corpus=_corpus_file(maker.corpus, cache_dir).resolve(),
        fingerprint=maker.corpus.fingerprint,
        folder=folder.folder.resolve(),
        shard_rows=maker.shard_rows,
        dtype=maker.dtype,
    )
    run = run_ray if settings.engine == "ray" else run_workers
    run(job, missing, min(settings.workers, len(missing)), report)


def _corpus_file(corpus: Corpus, cache_dir: Path) -> Path:
    """The corpus's file; one in the cache folder where it is in memory alone."""
    if corpus.path is not None:
        return corpus.path
    path = cache_dir / "corpora" / f"{corpus.fingerprint}.arrow"
    if not path.is_file():
        write_corpus(path, corpus.values())
    return path


def _progress(rows: int) -> "tqdm[Any]":
    """A bar with products per second and the time that is left; only for long work."""
    return tqdm(total=rows, desc="Embedding", unit="product", disable=rows < PROGRESS_FROM)
