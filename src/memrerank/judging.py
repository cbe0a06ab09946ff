"""From a composed configuration to the judge, what asks it, and what it leaves in the record."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.utils import instantiate

from memrerank.building import build, plain, price_of
from memrerank.config import Config
from memrerank.config.judges import TRANSPORT, CacheMode
from memrerank.errors import ConfigError
from memrerank.rerank.asking import Asker
from memrerank.rerank.cache import CachedReranker
from memrerank.rerank.embedding import CACHED_VECTORS, EmbeddingReranker
from memrerank.rerank.prompting import prompt_path, prompt_version
from memrerank.rerank.ranking import RankingPlan
from memrerank.retrieval.dense import product_vectors
from memrerank.schema import Benchmark, Question, RewardCallback, SetwiseReranker
from memrerank.tracking import Run


def judge_namespace(cfg: Config) -> dict[str, Any]:
    """What a recorded answer depends on besides the question.

    That is the judge, its parameters and its prompt, and not how it is reached: answers of one
    model replay under another address, without its key.
    """
    node = plain(cfg.reranker)
    identity = {name: value for name, value in node.items() if name not in TRANSPORT}
    if prompt := node.get("prompt"):
        identity["prompt"] = {prompt: prompt_version(prompt)}
    return identity


def make_judge(cfg: Config) -> SetwiseReranker:
    """The bare judge."""
    if "price" in plain(cfg.reranker):
        return build(cfg.reranker, price=price_of(cfg.prices, cfg.reranker))
    return build(cfg.reranker)


def check_training_judge(cfg: Config) -> None:
    """Refuses a judge that answers within a day.

    Raises:
        ConfigError: `reranker.batch` is set.
    """
    if plain(cfg.reranker).get("batch"):
        raise ConfigError(
            "reranker.batch=true: every training step would wait for a batch, which may take a "
            "day; train with reranker.batch=false, and evaluate with batches"
        )


def make_reranker(cfg: Config, benchmark: Benchmark, stage: str) -> Asker:
    """The judge, behind its recording where `judge_cache.mode` asks for one.

    Args:
        stage: what its answers are counted under at first.
    """
    mode = cfg.judge_cache.mode
    judge = None if mode is CacheMode.readonly else make_judge(cfg)
    if isinstance(judge, EmbeddingReranker) and len(benchmark.corpus) <= CACHED_VECTORS:
        # One encoding of the corpus serves a dense retriever of the same encoder and every run
        # after this one. A corpus beyond what the judge keeps is encoded as it is met.
        texts = [product.text for product in benchmark.corpus.values()]
        judge.remember(texts, product_vectors(judge.encoder, benchmark.corpus, Path(cfg.cache_dir)))
    if judge is None or mode is not CacheMode.off:
        path = Path(cfg.judge_cache.path)
        judge = CachedReranker(judge, path, mode.value, judge_namespace(cfg))
    return make_asker(cfg, judge, stage)


def find_recording(cfg: Config) -> CachedReranker | None:
    """The judge's recorded answers; None where a run would use none, or there are none yet."""
    path, mode = Path(cfg.judge_cache.path), cfg.judge_cache.mode
    if mode not in (CacheMode.readwrite, CacheMode.readonly) or not path.is_file():
        return None
    return CachedReranker(None, path, "readonly", judge_namespace(cfg))


def make_asker(cfg: Config, judge: SetwiseReranker, stage: str) -> Asker:
    """The way in which any judge is asked.

    Candidate orders come from the benchmark's seed, so that runs with other seeds stay paired.
    """
    seed, reasks = cfg.data.split_seed, cfg.judging.max_reasks
    return Asker(judge, seed=seed, max_reasks=reasks, stage=stage)


def make_ranking(cfg: Config) -> RankingPlan:
    """The ranking algorithm, and how its comparisons are asked."""
    node = plain(cfg.ranking)
    how = {name: node.pop(name) for name in ("question", "votes")}
    node.pop("name")
    algorithm = instantiate({**node, "_partial_": True})
    return RankingPlan(algorithm, Question(how["question"]), how["votes"])


def make_reward(cfg: Config, reranker: Asker) -> RewardCallback:
    """The reward callback over the judge (`reward=cached`: over the judge's recording)."""
    return build(cfg.reward, reranker=reranker, target=cfg.target.name)


def ranking_label(cfg: Config) -> str:
    """What tells one way of ranking from another, with what departs from the usual."""
    votes = f" votes={cfg.ranking.votes}" if cfg.ranking.votes > 1 else ""
    return f"{cfg.ranking.name}{votes}{' stop_at_positive' if cfg.eval.stop_at_positive else ''}"


def prompt_file(cfg: Config) -> Path | None:
    """The template of the question to the judge; None for judges that read no prompt."""
    name = plain(cfg.reranker).get("prompt")
    return prompt_path(name) if name else None


@contextmanager
def recorded_places(judge: Asker, run: Run) -> Iterator[None]:
    """Records the judge's position bias as a figure when the block ends, with an error too.

    After Ctrl-C it draws nothing: who stops a run does not wait for a figure.
    """
    try:
        yield
    except Exception:
        _record_places(judge, run)
        raise
    _record_places(judge, run)


def _record_places(judge: Asker, run: Run) -> None:
    shares = {stage: judge.tally.place_shares(stage) for stage in judge.tally.counts}
    if any(shares.values()):
        from memrerank.evaluation.places import place_figure  # matplotlib takes a while to import

        run.log_figure(place_figure(shares), "judge/places.png")
