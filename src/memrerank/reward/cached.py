"""The setwise reward on recorded answers: no judge, no cost, the same numbers every time."""

from pathlib import Path
from typing import Any

from memrerank.memory.quality import QualitySettings
from memrerank.rerank.cache import CachedReranker
from memrerank.reward.setwise import SetwiseReward
from memrerank.schema import Target


class CachedReward(SetwiseReward):
    """Replays what a judge answered in an earlier run.

    `path` and `namespace` are those of the run that recorded the answers (`rerank.cache`);
    the other arguments are those of SetwiseReward. A question without a recorded answer raises
    JudgeError, with the query, the sample and the file.
    """

    def __init__(
        self,
        path: Path,
        namespace: dict[str, Any],
        target: Target,
        samples: int = 5,
        utility: str = "sampled",
        quality_weight: float = 0.1,
        quality: QualitySettings | None = None,
    ) -> None:
        reranker = CachedReranker(
            None,
            path,
            "readonly",
            namespace,
            remedy="set reward=setwise with cache mode readwrite to ask the judge",
        )
        super().__init__(reranker, target, samples, utility, quality_weight, quality)
