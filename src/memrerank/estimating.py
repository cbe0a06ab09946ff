"""`dry_run=true`: the calls, tokens and cost of an evaluation or a training, without one call.

Prompts are the real ones; only what a training would yet have to make, its memories, is replaced by
as many words of the history as a memory may have.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from memrerank import judging
from memrerank.building import plain, price_of
from memrerank.config import Config
from memrerank.rerank.asking import Asker
from memrerank.rerank.dry_run import (
    DryJudge,
    Estimate,
    Rates,
    estimate_table,
    estimate_tokens,
)
from memrerank.rerank.ledger import Price
from memrerank.rerank.ranking import rank_pools
from memrerank.reward.setwise import Utility
from memrerank.schema import (
    Comparison,
    History,
    Memory,
    Pool,
    Product,
    Query,
    SetwiseInstance,
    Target,
    TrainingCase,
)
from memrerank.seeding import numpy_generator
from memrerank.storage import write_json

log = logging.getLogger(__name__)

ESTIMATE_FILE = "estimate.json"
SAMPLE = 1000  # training instances whose prompts are counted; the rest are taken to be like them


def estimate_evaluation(
    cfg: Config,
    queries: Sequence[Query],
    memories: Mapping[str, Memory],
    pools: Mapping[str, Pool],
    corpus: Mapping[str, Product],
) -> Estimate:
    """What ranking these queries with these memories would take."""
    judge = make_dry_judge(cfg, "evaluate")
    rank_pools(
        queries,
        memories,
        pools,
        corpus,
        judge,
        judging.make_ranking(cfg),
        stop_at_positive=cfg.eval.stop_at_positive,
    )
    estimate: Estimate = judge.ledger
    return estimate


def estimate_training(
    cfg: Config,
    cases: Sequence[TrainingCase],
    batches: int,
    dev_queries: Sequence[Query],
    dev_instances: Sequence[SetwiseInstance],
    dev_pools: Mapping[str, Pool],
    histories: Mapping[str, History],
    corpus: Mapping[str, Product],
) -> Estimate:
    """What rewards and dev rankings of a training would take, if all memories were different.

    Args:
        batches: of `grpo.prompts_per_step` cases, one after the other, that training goes through.
    """
    judge = make_dry_judge(cfg, "train")
    estimate: Estimate = judge.ledger
    memory_of = partial(
        stand_in, target=cfg.target.name, words=cfg.extractor.prompt.max_memory_words
    )
    ask: Callable[[Sequence[Comparison]], object] = judge.choose
    samples = cfg.reward.samples
    if cfg.reward.utility is Utility.expected:
        ask, samples = judge.distribution, 1

    shown = _drawn(cases, SAMPLE, cfg.seed)
    ask([_comparison(c.query, c.instance, memory_of(c.history)) for c in shown])
    rollouts = batches * cfg.grpo.prompts_per_step * cfg.grpo.rollouts
    estimate.scale("train", rollouts * samples / len(shown))

    memories = {query.id: memory_of(histories[query.id]) for query in dev_queries}
    by_id = {query.id: query for query in dev_queries}
    with judge.during("dev"):
        rank_pools(dev_queries, memories, dev_pools, corpus, judge, judging.make_ranking(cfg))
        for _ in range(samples):
            ask([_comparison(by_id[i.query_id], i, memories[i.query_id]) for i in dev_instances])
    steps = batches * cfg.grpo.inner_epochs
    estimate.scale("dev", 1 + steps // cfg.dev.every_steps)  # and once before the first step
    return estimate


def tell(cfg: Config, estimate: Estimate, output_dir: Path) -> None:
    """Prints the estimate and what it rests on, and writes it."""
    rates = make_rates(cfg)
    write_json(
        output_dir / ESTIMATE_FILE,
        {"calls": dict(estimate.calls), "input_tokens": dict(estimate.input_tokens)},
    )
    print(f"\n{estimate_table(estimate, rates)}\n\n{_basis(cfg, rates)}")


def make_dry_judge(cfg: Config, stage: str) -> Asker:
    """The configured judge with nothing but its questions."""
    judge = judging.make_judge(cfg) if "usual_output" in plain(cfg.reranker) else None
    request = getattr(judge, "request", None)
    recorded = judging.find_recording(cfg)
    lookup = None if recorded is None else recorded.lookup
    return judging.make_asker(cfg, DryJudge(request, make_counter(cfg), cfg.seed, lookup), stage)


def make_counter(cfg: Config) -> Callable[[str], int]:
    """Counts a text's tokens: with `reranker.tokenizer`, or by its length."""
    name = plain(cfg.reranker).get("tokenizer")
    if not name:
        return estimate_tokens
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def make_rates(cfg: Config) -> Rates | None:
    """What the judge's answers take; None for a judge that sends nothing anywhere."""
    node = plain(cfg.reranker)
    if node.get("usual_output") is None:
        return None
    found = price_of(cfg.prices, cfg.reranker)
    price = None if found is None else Price.of(found, "reranker.price")
    return Rates(node["usual_output"], node["max_completion_tokens"], price, node["batch"])


def stand_in(history: History, target: Target, words: int) -> Memory:
    """A memory of `words` words, made of the newest purchases."""

    def newest(purchases: Sequence[Product], count: int) -> str:
        text = " ".join(product.title for product in reversed(purchases))
        return " ".join(text.split()[:count])

    within = [purchase.product for purchase in history.within]
    cross = [purchase.product for purchase in history.cross]
    if target is Target.w:
        return Memory(newest(within, words))
    return Memory(newest(within, -(-words // 2)), newest(cross, words // 2))


def _basis(cfg: Config, rates: Rates | None) -> str:
    """What the numbers rest on, for people."""
    if rates is None:
        return f"reranker={cfg.reranker.name} runs in this process: its calls cost time alone"
    counted = plain(cfg.reranker).get("tokenizer") or "4 characters a token"
    price = price_of(cfg.prices, cfg.reranker)
    cost = (
        f"prices of {price.get('date') or 'no date'}, no input taken as cached"
        if price
        else f"no price is known for {plain(cfg.reranker)['model']}: set reranker.price"
    )
    return (
        f"Nothing was asked. Input tokens by {counted}; output from reranker.usual_output to "
        f"reranker.max_completion_tokens a call; {cost}; recorded answers count as nothing, "
        "and no question is taken to be asked again"
    )


def _drawn(cases: Sequence[TrainingCase], most: int, seed: int) -> list[TrainingCase]:
    places = numpy_generator(seed, "estimate").permutation(len(cases))[:most]
    return [cases[place] for place in places]


def _comparison(query: Query, instance: SetwiseInstance, memory: Memory) -> Comparison:
    return Comparison(query.id, query.text, memory, instance.candidates)
