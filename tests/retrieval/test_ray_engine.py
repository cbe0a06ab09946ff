"""Embedding under a real Ray on this machine: the same files as without it."""

import importlib.util
import os
import sys

import numpy as np
import pytest
from hash_encoder import HashEncoder, shop

from memrerank.errors import ConfigError, DataError
from memrerank.retrieval.embedding import EmbeddingSettings, embed_corpus

SETTINGS = EmbeddingSettings(engine="ray", workers=2, shard_rows=15)


@pytest.fixture(autouse=True)
def _workers_find_the_tests(monkeypatch):
    """Ray's processes start from the environment: they must find `hash_encoder` as pytest does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


@pytest.mark.timeout(120)
def test_ray_makes_the_same_shards_and_only_those_that_are_missing(tmp_path):
    ray = pytest.importorskip("ray")
    products = shop(100)
    embed_corpus(HashEncoder(), products, tmp_path / "local", EmbeddingSettings(shard_rows=15))
    embed_corpus(HashEncoder(), products, tmp_path / "ray", EmbeddingSettings(shard_rows=15))
    made = {path.name: path for path in (tmp_path / "ray").rglob("*.npy")}
    assert len(made) == 7
    for number in (1, 4, 6):
        made[f"shard-{number:05}.npy"].unlink()
    kept = made["shard-00000.npy"].stat().st_mtime_ns

    store = embed_corpus(HashEncoder(), products, tmp_path / "ray", SETTINGS)

    assert store.rows == 100
    assert made["shard-00000.npy"].stat().st_mtime_ns == kept
    for path in (tmp_path / "local").rglob("*.npy"):
        assert made[path.name].read_bytes() == path.read_bytes()
    texts = [products[id].text for id in sorted(products)]
    assert np.allclose(store.read(), HashEncoder().encode_queries(texts), atol=1e-3)
    assert not ray.is_initialized()  # it was started for this, and is stopped
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_error_of_an_actor_is_raised_and_a_running_ray_runs_on(tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with pytest.raises(DataError, match="no encoder will take this"):
            embed_corpus(HashEncoder(failure="data"), shop(40), tmp_path, SETTINGS)
        with pytest.raises(ray.exceptions.RayError, match="a slip in the encoder"):
            embed_corpus(HashEncoder(failure="bug"), shop(40), tmp_path, SETTINGS)
        assert ray.is_initialized()
        store = embed_corpus(HashEncoder(), shop(40), tmp_path, SETTINGS)
        assert store.rows == 40
    finally:
        ray.shutdown()


def test_without_ray_the_message_says_what_to_install(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ray" else find(name)
    )
    with pytest.raises(ConfigError, match=r"pip install -r requirements-ray\.txt"):
        embed_corpus(HashEncoder(), shop(40), tmp_path, SETTINGS)
