"""Seeded random generators, one per purpose.

Nothing in the project draws from a global generator. A generator is derived from the run's seed
and a path of names (`"split"`, `"rollout", step, query_id`), so that adding a draw in one place
never shifts the draws of another, and a resumed run needs no saved generator state.
"""

import hashlib

import numpy as np
import torch


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed that depends on `seed` and on every name, in order."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator of its own for the purpose that `names` spell out."""
    return np.random.default_rng(derive_seed(seed, *names))


def torch_generator(seed: int, *names: str | int) -> torch.Generator:
    """A CPU torch generator of its own for the purpose that `names` spell out."""
    generator = torch.Generator()
    generator.manual_seed(derive_seed(seed, *names))
    return generator
