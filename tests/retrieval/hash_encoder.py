"""An encoder without a model: it can be built again in any process, made to stall, made to fail."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memrerank.errors import DataError
from memrerank.schema import Product


class HashEncoder:
    """Unit vectors that depend on the text alone.

    Args:
        seed: vectors of another seed are others.
        dims: width of the vectors.
        delay: seconds per call.
        failure: raised on every call, by kind: `data` a DataError, `bug` a ZeroDivisionError.
        device: taken as real encoders take one, and ignored.
    """

    def __init__(
        self,
        seed: int = 0,
        dims: int = 8,
        delay: float = 0.0,
        failure: str | None = None,
        device: str = "auto",
    ) -> None:
        self.seed = seed
        self.dims = dims
        self.delay = delay
        self.failure = failure
        self.device = device
        self.calls: list[list[str]] = []  # the products of each call

    @property
    def recipe(self) -> Mapping[str, Any]:
        return {"model": "hash", "seed": self.seed, "dims": self.dims}

    @property
    def encoded(self) -> int:
        """Products that were encoded so far."""
        return sum(map(len, self.calls))

    def arguments(self) -> dict[str, Any]:
        names = ("seed", "dims", "delay", "failure", "device")
        return {name: getattr(self, name) for name in names}

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.array([self._vector(text) for text in texts], dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_products(self, texts: Sequence[str]) -> np.ndarray:
        time.sleep(self.delay)
        if self.failure == "data":
            raise DataError("no encoder will take this")
        if self.failure == "bug":
            raise ZeroDivisionError("a slip in the encoder")
        self.calls.append(list(texts))
        return self.encode_queries(texts)

    def _vector(self, text: str) -> np.ndarray:
        digest = hashlib.sha256(f"{self.seed}/{text}".encode()).digest()
        return np.random.default_rng(list(digest)).normal(size=self.dims)


def shop(products: int) -> dict[str, Product]:
    """Products whose ids are out of order and whose texts differ in length; some texts repeat."""
    ids = np.random.default_rng(products).permutation(products)
    return {
        f"p{number:05}": Product(
            f"p{number:05}", "word " * (number % 7) + str(number // 2), "", "S"
        )
        for number in ids
    }
