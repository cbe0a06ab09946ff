"""Memories written by a language model: the untrained extractor and the trained one."""

from collections.abc import Sequence

from tqdm import tqdm

from memrerank.memory.extractor import batches
from memrerank.memory.parsing import ParsedMemory, parse_memory
from memrerank.memory.prompting import MemoryPrompt
from memrerank.memory.sampling import TransformersRolloutEngine
from memrerank.schema import History, Memory
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
        return [parsed.memory for parsed in self.write(histories)]

    def write(self, histories: Sequence[History]) -> list[ParsedMemory]:
        """As `build`, with the evidence that was cited."""
        prompts = [self.prompt.token_ids(h, self.engine.tokenizer) for h in histories]
        # Neighbours in length share a batch, so that little is padded.
        order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
        written: dict[int, ParsedMemory] = {}
        for batch in tqdm(
            batches(order, self.batch_size), desc="memories", disable=not self.progress, leave=False
        ):
            groups = self.engine.generate(
                [prompts[i] for i in batch],
                rollouts=1,
                seeds=[derive_seed(self.seed, "memory", fingerprint(prompts[i])) for i in batch],
            )
            for i, group in zip(batch, groups, strict=True):
                written[i] = parse_memory(group.rollouts[0].text, self.prompt.target)
        return [written[i] for i in range(len(prompts))]
