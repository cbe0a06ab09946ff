"""What chooses the checkpoint: dev queries ranked with the memories that the policy writes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memrerank.evaluation.metrics import evaluate_rankings
from memrerank.memory.parsing import parse_memory
from memrerank.rerank.asking import Asker
from memrerank.rerank.ranking import RankingPlan, rank_pools
from memrerank.schema import (
    History,
    Pool,
    Product,
    Query,
    RewardCallback,
    RolloutGroup,
    SetwiseInstance,
    Target,
    TrainingCase,
)


@dataclass(frozen=True)
class DevEvaluator:
    """Scores one memory per dev query: full ranking, and the setwise dev instances."""

    queries: Sequence[Query]
    histories: Mapping[str, History]  # by query id
    pools: Mapping[str, Pool]  # by query id, of the evaluated retriever
    corpus: Mapping[str, Product]
    instances: Sequence[SetwiseInstance]  # of all training retrievers
    reranker: Asker
    plan: RankingPlan
    reward: RewardCallback
    target: Target

    def score(self, groups: Mapping[str, RolloutGroup]) -> dict[str, float]:
        """Dev metrics: MRR@10 and @5, accuracy (5-way), reward, memory words.

        Args:
            groups: one single-rollout group per dev query, by query id.
        """
        with self.reranker.during("dev"):
            return self._ranking_metrics(groups) | self._instance_metrics(groups)

    def _ranking_metrics(self, groups: Mapping[str, RolloutGroup]) -> dict[str, float]:
        """MRR over the full rankings."""
        memories = {
            query_id: parse_memory(group.rollouts[0].text, self.target).memory
            for query_id, group in groups.items()
        }
        rankings = rank_pools(
            self.queries,
            memories,
            self.pools,
            self.corpus,
            self.reranker,
            self.plan,
        )
        means = evaluate_rankings(rankings, self.queries).means
        words = [len(memory.text.split()) for memory in memories.values()]
        return {
            "dev/mrr_at_10": means["mrr_at_10"],
            "dev/mrr_at_5": means["mrr_at_5"],
            "dev/memory_words": float(np.mean(words)),
        }

    def _instance_metrics(self, groups: Mapping[str, RolloutGroup]) -> dict[str, float]:
        """Reward and 5-way accuracy over the dev instances; a query's instances weigh as one.

        Failed rewards are left out; both are NaN when all have failed.
        """
        by_query = {query.id: query for query in self.queries}
        judged = [
            replace(
                groups[instance.query_id],
                case=TrainingCase(
                    by_query[instance.query_id], self.histories[instance.query_id], instance
                ),
            )
            for instance in self.instances
            if instance.query_id in groups
        ]
        if not judged:
            return {}
        rewards = self.reward(judged)
        values: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for group, total, utility in zip(
            judged, rewards.total[:, 0], rewards.components["utility"][:, 0], strict=True
        ):
            assert group.case is not None
            if not np.isnan(total):
                values[group.case.query.id].append((total, utility))
        if not values:
            return {"dev/reward": float("nan"), "dev/accuracy": float("nan")}
        per_query = np.array([np.mean(pairs, axis=0) for pairs in values.values()])  # [Q, 2]
        reward, accuracy = per_query.mean(axis=0)
        return {"dev/reward": float(reward), "dev/accuracy": float(accuracy)}
