"""Training: benchmark, pools, instances, GRPO over the judge's feedback, the best adapter kept."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from hydra.utils import instantiate
from lightning.pytorch.callbacks import ModelCheckpoint

from memrerank import judging, pipeline
from memrerank.config import Config
from memrerank.data.datamodule import MemoryDataModule
from memrerank.errors import DataError
from memrerank.estimating import estimate_training, tell
from memrerank.grpo.callbacks import BestAdapter, InterruptedCheckpoint, JudgeMetrics, MemorySamples
from memrerank.grpo.dev import DevEvaluator
from memrerank.grpo.loss import LossSettings
from memrerank.grpo.module import GRPOModule, GRPOSettings
from memrerank.memory.extractor import LoraSettings, add_adapter, batches, load_base
from memrerank.rerank.asking import Asker
from memrerank.rerank.dry_run import Estimate
from memrerank.resume import RECORD, find_checkpoint, read_record
from memrerank.retrieval.pools import recall_at_k
from memrerank.schema import (
    Benchmark,
    Pool,
    Query,
    SetwiseInstance,
    Split,
    TrainingCase,
)
from memrerank.seeding import numpy_generator
from memrerank.storage import write_json
from memrerank.tracking import Run, lightning_logger, open_run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingResult:
    """What a training run came to."""

    run_id: str  # MLflow
    adapter: Path | None  # the adapter that ranked best on dev; None if dev was never ranked
    best_dev_mrr_at_10: float | None
    best_step: int
    steps: int


@dataclass(frozen=True)
class TrainingData:
    """All that training reads."""

    benchmark: Benchmark
    cases: list[TrainingCase]
    dev_queries: tuple[Query, ...]
    dev_instances: list[SetwiseInstance]
    dev_pools: dict[str, Pool]
    counts: dict[str, float]


def train(cfg: Config, output_dir: Path) -> TrainingResult | None:
    """Trains the extractor that `cfg` describes; `output_dir` gets checkpoints and the adapter.

    Under `dry_run` it only tells what the judge would take, and returns None.

    Raises:
        MemrerankError: the configuration, the data or the judge will not do; the message says why.
    """
    pipeline.check_training_retrievers(cfg)
    judging.check_training_judge(cfg)
    resumed = find_checkpoint(cfg, output_dir)
    run_dir = resumed.parent.parent if resumed else output_dir
    data = make_training_data(cfg)
    if cfg.dry_run:
        tell(cfg, estimate(cfg, data), output_dir)
        return None
    with open_training_run(cfg, run_dir, resumed) as run:
        pipeline.log_config(cfg, run)
        run.log_metrics({f"data/{name}": value for name, value in data.counts.items()})
        judge = judging.make_reranker(cfg, data.benchmark, "train")
        module = make_module(cfg, data, judge)
        best = BestAdapter(
            run_dir / "adapter",
            pipeline.adapter_card(cfg, module.prompt),
            run.set_best_adapter,
            cfg.dev.every_steps,
        )
        trainer = make_trainer(cfg, run_dir, run, best, judge)
        datamodule = make_datamodule(cfg, data)
        with judging.recorded_places(judge, run):
            if resumed is None:  # where training starts from, as step 0 of every dev curve
                trainer.validate(module, datamodule, verbose=False)
            trainer.fit(module, datamodule, ckpt_path=resumed, weights_only=True)
            if best.is_due(trainer):  # stopped after its last step, before the ranking
                trainer.validate(module, datamodule, verbose=False)
        result = TrainingResult(
            run.id,
            best.folder if best.best is not None else None,
            best.best,
            best.best_step,
            trainer.global_step,
        )
    report(cfg, result)
    return result


def make_training_data(cfg: Config) -> TrainingData:
    """Benchmark, pools and instances of the training retrievers; dev pools of `retriever`.

    Raises:
        DataError: there is nothing to train on, or nothing to choose a checkpoint by.
    """
    benchmark = pipeline.make_benchmark(cfg)
    names = dict.fromkeys([*cfg.retrieval.train, cfg.retriever.name])
    pools = {name: pipeline.make_pools(cfg, benchmark, name) for name in names}
    dev_queries = choose_queries(benchmark.queries[Split.dev], cfg.dev.queries, cfg.data.split_seed)
    instances, train_counts = pipeline.make_instances(cfg, benchmark, pools, Split.train)
    dev_instances, dev_counts = pipeline.make_instances(
        cfg, benchmark, pools, Split.dev, dev_queries
    )
    for split, found in ((Split.train, instances), (Split.dev, dev_queries)):
        if not found:
            raise DataError(
                f"no {split.value} material: {len(benchmark.queries[split])} {split.value} queries "
                f"in {cfg.category.name}, of which none can be used; counts: "
                f"{benchmark.counts | train_counts}. Choose another category or a larger store"
            )
    queries = {query.id: query for query in benchmark.queries[Split.train]}
    cases = [
        TrainingCase(queries[one.query_id], benchmark.histories[one.query_id], one)
        for one in instances
    ]
    recalls = {
        f"dev/recall_at_{cfg.retrieval.pool_size}/{name}": recall_at_k(
            pools[name], benchmark.queries[Split.dev], cfg.retrieval.pool_size
        )
        for name in names
    }
    log.info("%d training instances; dev recall %s", len(cases), recalls)
    counts = {**benchmark.counts, **train_counts, **dev_counts, **recalls}
    return TrainingData(
        benchmark, cases, dev_queries, dev_instances, pools[cfg.retriever.name], counts
    )


def estimate(cfg: Config, data: TrainingData) -> Estimate:
    """What the judge would take."""
    schedule = make_datamodule(cfg, data).schedule()
    dev = (data.dev_queries, data.dev_instances, data.dev_pools)
    benchmark = data.benchmark
    return estimate_training(
        cfg, data.cases, len(schedule), *dev, benchmark.histories, benchmark.corpus
    )


def make_datamodule(cfg: Config, data: TrainingData) -> MemoryDataModule:
    """The order of training and of dev evaluation."""
    return MemoryDataModule(
        data.cases,
        batches(data.dev_queries, cfg.extractor.batch_size),
        cfg.grpo.prompts_per_step,
        cfg.grpo.epochs,
        cfg.seed,
        cfg.grpo.inner_epochs,
        cfg.trainer.max_steps,
    )


def choose_queries(queries: Sequence[Query], most: int | None, seed: int) -> tuple[Query, ...]:
    """At most `most` queries, drawn from a seed and kept in their order; None keeps all."""
    if most is None or most >= len(queries):
        return tuple(queries)
    drawn = numpy_generator(seed, "choose queries").permutation(len(queries))[:most]
    return tuple(queries[place] for place in sorted(drawn))


def make_module(cfg: Config, data: TrainingData, reranker: Asker) -> GRPOModule:
    """The policy with a fresh adapter, its judge, and what chooses the checkpoint."""
    prompt = pipeline.make_prompt(cfg)
    base, tokenizer = load_base(cfg.extractor.model, cfg.extractor.dtype, pipeline.cache_dir(cfg))
    if cfg.grpo.gradient_checkpointing:
        base.gradient_checkpointing_enable({"use_reentrant": False})
        base.enable_input_require_grads()
    lora = cfg.extractor.lora
    policy = add_adapter(
        base, LoraSettings(lora.r, lora.alpha, lora.dropout, list(lora.target_modules)), cfg.seed
    )
    engine = pipeline.make_engine(cfg, policy, tokenizer)
    reward = judging.make_reward(cfg, reranker)
    dev = make_dev_evaluator(cfg, data, reranker, reward)
    return GRPOModule(policy, engine, prompt, reward, dev, grpo_settings(cfg), cfg.seed)


def make_dev_evaluator(
    cfg: Config, data: TrainingData, reranker: Asker, reward: Any
) -> DevEvaluator:
    """Full ranking of the dev queries, as evaluation does it for the test queries."""
    return DevEvaluator(
        queries=data.dev_queries,
        histories=data.benchmark.histories,
        pools=data.dev_pools,
        corpus=data.benchmark.corpus,
        instances=data.dev_instances,
        reranker=reranker,
        plan=judging.make_ranking(cfg),
        reward=reward,
        target=cfg.target.name,
    )


def grpo_settings(cfg: Config) -> GRPOSettings:
    """The `grpo` node as the module takes it."""
    node = cfg.grpo
    return GRPOSettings(
        rollouts=node.rollouts,
        inner_epochs=node.inner_epochs,
        scale=node.scale,
        sigma_floor=node.sigma_floor,
        learning_rate=node.learning_rate,
        warmup_steps=node.warmup_steps,
        weight_decay=node.weight_decay,
        max_grad_norm=node.max_grad_norm,
        max_failure_rate=node.max_failure_rate,
        loss=LossSettings(
            node.loss,
            node.clip_low,
            node.clip_high,
            node.beta,
            max_length=cfg.extractor.sampling.max_new_tokens,
        ),
    )


def make_trainer(
    cfg: Config, run_dir: Path, run: Run, best: BestAdapter, judge: Asker
) -> pl.Trainer:
    """Lightning's trainer with our logger and callbacks."""
    checkpoints = run_dir / "checkpoints"
    trainer: pl.Trainer = instantiate(
        cfg.trainer,
        max_epochs=1,  # the schedule holds all epochs, so that a resumed run counts on
        val_check_interval=max(1, cfg.dev.every_steps // cfg.grpo.inner_epochs),  # batches
        check_val_every_n_epoch=None,
        default_root_dir=str(run_dir),
        logger=lightning_logger(run, lambda: trainer.global_step),
        callbacks=[
            best,
            JudgeMetrics(judge, run.log_metrics),
            MemorySamples(
                lambda rows, step: run.log_table(rows, "memories", step),
                cfg.checkpoint.memory_samples_every,
            ),
            ModelCheckpoint(
                checkpoints,
                filename="{step}",
                every_n_train_steps=cfg.checkpoint.every_steps,
                save_last=True,
            ),
            InterruptedCheckpoint(checkpoints / "interrupted.ckpt"),
        ],
    )
    return trainer


def open_training_run(cfg: Config, run_dir: Path, resumed: Path | None) -> Run:
    """A new MLflow run, or the one that the checkpoint belongs to."""
    labels = asdict(pipeline.RunLabels.of(cfg))
    run = open_run(
        cfg.tracking.uri,
        cfg.tracking.experiment,
        f"train {cfg.category.label}/{cfg.target.name.value} seed {cfg.seed}",
        {"kind": "train", **labels},
        read_record(run_dir)["mlflow_run_id"] if resumed else None,
    )
    card = pipeline.adapter_card(cfg, pipeline.make_prompt(cfg))
    write_json(run_dir / RECORD, {"mlflow_run_id": run.id, "trains": asdict(card)})
    return run


def report(cfg: Config, result: TrainingResult) -> None:
    """Says what the run came to and what to do next."""
    choice = f"category={cfg.category.label} target={cfg.target.name.value}"
    log.info("Trained %d steps; MLflow run %s", result.steps, result.run_id)
    if result.adapter is not None:
        log.info(
            "Best on dev: MRR@10 %.4f at step %d, adapter in %s",
            result.best_dev_mrr_at_10,
            result.best_step,
            result.adapter,
        )
        log.info("Next: python evaluate.py %s baseline=memrerank", choice)
    else:
        log.warning("Dev was never ranked: lower dev.every_steps to keep an adapter")
