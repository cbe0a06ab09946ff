"""Memories written by a language model: the untrained extractor and the trained one."""

from collections.abc import Sequence

from tqdm import tqdm

from memrerank.memory.extractor import batches
from memrerank.memory.parsing import parse_memory
from memrerank.memory.prompting import MemoryPrompt
from memrerank.memory.sampling import TransformersRolloutEngine
from memrerank.schema import History, Memory, RolloutGroup
from memrerank.seeding import derive_seed
from memrerank.storage import fingerprint


class LanguageModelMemory:
    """One sampled memory per history.

    A history's draw depends on the seed and the prompt, not on its batch or its place.
    """

    def __init__(
        self,
        engine: TransformersRolloutEngine,
        prompt: MemoryPrompt,
        seed: int,
        batch_size: int = 16,
        progress: bool = False,
    ) -> None:
        self.engine = engine
        self.prompt = prompt
        self.seed = seed
        self.batch_size = batch_size
        self.progress = progress

    def build(self, histories: Sequence[History]) -> list[Memory]:
        """Memories in the order of `histories`; flaws stay with each memory."""
        return [
            parse_memory(group.rollouts[0].text, self.prompt.target).memory
            for group in self.sample(histories)
        ]

    def sample(self, histories: Sequence[History]) -> list[RolloutGroup]:
        """The texts behind `build`: one single-rollout group per history, in order."""
        prompts = [self.prompt.token_ids(h, self.engine.tokenizer) for h in histories]
        # Neighbours in length share a batch, so that little is padded.
        order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
        groups: dict[int, RolloutGroup] = {}
        for batch in tqdm(
            batches(order, self.batch_size), desc="memories", disable=not self.progress, leave=False
        ):
            sampled = self.engine.generate(
                [prompts[i] for i in batch],
                rollouts=1,
                seeds=[derive_seed(self.seed, "memory", fingerprint(prompts[i])) for i in batch],
            )
            groups |= dict(zip(batch, sampled, strict=True))
        return [groups[i] for i in range(len(prompts))]
