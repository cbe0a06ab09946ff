"""The products that are searched, in an Arrow file that is memory-mapped.

A corpus of a million products does not become a million Python objects: rows are read where they
are needed, in blocks where all are needed.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import pyarrow as pa

from memrerank.schema import Product
from memrerank.storage import atomic_path, canonical_json

ROWS_PER_BATCH = 16_384  # rows that one block of the file holds
FIELDS = ("id", "title", "description", "category")
SCHEMA = pa.schema([(name, pa.string()) for name in FIELDS])


class Corpus(Mapping[str, Product]):
    """Products by id, in the order of their ids. A read-only mapping; iterating streams it.

    Args:
        batches: the rows, sorted by id; each batch but the last has `ROWS_PER_BATCH`.
        fingerprint: a hash that differs where ids or texts differ.
        path: the file behind the batches, for other processes to open; None: in memory alone.
    """

    def __init__(
        self, batches: list[pa.RecordBatch], fingerprint: str, path: Path | None = None
    ) -> None:
        self.fingerprint = fingerprint
        self.path = path
        self._batches = batches
        self._firsts = [batch.column(0)[0].as_py() for batch in batches]  # the first id of each
        self._size = sum(batch.num_rows for batch in batches)

    @classmethod
    def open(cls, path: Path, fingerprint: str) -> "Corpus":
        """The corpus in a file that `write_corpus` wrote."""
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        return cls(batches, fingerprint, path)

    @classmethod
    def of(cls, products: Iterable[Product]) -> "Corpus":
        """An in-memory corpus of products in any order."""
        ordered = sorted(products, key=lambda product: product.id)
        digest = hashlib.sha256()
        for product in ordered:
            digest.update(canonical_json([product.id, product.text]).encode())
        return cls(list(_batches(ordered)), digest.hexdigest())

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        for batch in self._batches:
            yield from batch.column(0).to_pylist()

    def __getitem__(self, id: str) -> Product:
        if (row := self._row(id)) is None:
            raise KeyError(id)
        return self.product(row)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._row(id) is not None

    def product(self, row: int) -> Product:
        """The product at a row, from 0."""
        batch = self._batches[row // ROWS_PER_BATCH]
        place = row % ROWS_PER_BATCH
        return Product(*(batch.column(column)[place].as_py() for column in range(len(FIELDS))))

    def rows(self, start: int, stop: int) -> Iterator[Product]:
        """The products of the rows from `start` to before `stop`."""
        first = start // ROWS_PER_BATCH
        for number, batch in enumerate(self._batches[first:], start=first):
            offset = number * ROWS_PER_BATCH
            if offset >= stop:
                return
            low = max(start - offset, 0)
            part = batch.slice(low, stop - offset - low)
            for values in zip(*(column.to_pylist() for column in part.columns), strict=True):
                yield Product(*values)

    def texts(self, start: int, stop: int) -> list[str]:
        """The products' texts of the rows from `start` to before `stop`."""
        return [product.text for product in self.rows(start, stop)]

    def values(self):  # type: ignore[no-untyped-def]  # a stream in place of Mapping's view
        """All products in order, one block in memory at a time."""
        return self.rows(0, self._size)

    def items(self):  # type: ignore[no-untyped-def]  # likewise
        """All ids and products in order, one block in memory at a time."""
        return ((product.id, product) for product in self.rows(0, self._size))

    def _row(self, id: str) -> int | None:
        number = bisect_right(self._firsts, id) - 1
        if number < 0:
            return None
        ids = self._batches[number].column(0)
        place = bisect_left(range(len(ids)), id, key=lambda place: ids[place].as_py())
        if place == len(ids) or ids[place].as_py() != id:
            return None
        return number * ROWS_PER_BATCH + place


def write_corpus(path: Path, products: Iterable[Product]) -> int:
    """Writes products, which must come sorted by id, and returns how many there were.

    Raises:
        ValueError: two products have one id, or they are not sorted.
    """
    number = 0
    with (
        atomic_path(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, SCHEMA) as writer,
    ):
        for batch in _batches(_checked(products)):
            writer.write_batch(batch)
            number += batch.num_rows
    return number


def as_corpus(products: Mapping[str, Product]) -> Corpus:
    """The mapping itself if it is a corpus, else an in-memory corpus of its products."""
    return products if isinstance(products, Corpus) else Corpus.of(products.values())


def _batches(products: Iterable[Product]) -> Iterator[pa.RecordBatch]:
    stream = iter(products)
    while block := list(islice(stream, ROWS_PER_BATCH)):
        columns = [pa.array([getattr(one, name) for one in block], pa.string()) for name in FIELDS]
        yield pa.record_batch(columns, schema=SCHEMA)


def _checked(products: Iterable[Product]) -> Iterator[Product]:
    last = None
    for product in products:
        if last is not None and product.id <= last:
            raise ValueError(f"product {product.id} comes after {last}: ids must rise")
        last = product.id
        yield product
