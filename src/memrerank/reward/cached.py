"""The setwise reward on recorded answers: no judge, no cost, the same numbers every time."""

from memrerank.errors import ConfigError
from memrerank.memory.quality import QualitySettings
from memrerank.rerank.asking import Asker
from memrerank.rerank.cache import CachedReranker
from memrerank.reward.setwise import SetwiseReward, Utility
from memrerank.schema import SetwiseReranker, Target


class CachedReward(SetwiseReward):
    """Replays what a judge answered in an earlier run, and never asks one.

    Takes the arguments of SetwiseReward; `reranker` is an Asker around the CachedReranker that
    recorded the answers, in whatever mode. A question without a recorded answer raises JudgeError,
    with the query, the sample, the file and the setting to change.
    """

    def __init__(
        self,
        reranker: SetwiseReranker,
        target: Target,
        samples: int = 5,
        utility: Utility = Utility.sampled,
        quality_weight: float = 0.1,
        quality: QualitySettings | None = None,
    ) -> None:
        """Raises ConfigError for a judge without a recording, JudgeError for a missing file."""
        if not (isinstance(reranker, Asker) and isinstance(reranker.judge, CachedReranker)):
            raise ConfigError(
                "reward=cached: this judge has no recorded answers; set judge_cache.mode=readonly "
                "and judge_cache.path to a recording, or choose reward=setwise"
            )
        replay = CachedReranker(
            None,
            reranker.judge.path,
            "readonly",
            reranker.judge.namespace,
            remedy="set reward=setwise and judge_cache.mode=readwrite to ask the judge",
        )
        super().__init__(reranker.around(replay), target, samples, utility, quality_weight, quality)
