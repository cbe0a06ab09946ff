"""Everything that making a benchmark came to, for those who look behind it."""

from dataclasses import dataclass

from memrerank.data.raw import RawStore
from memrerank.data.steps import Artifact
from memrerank.schema import Benchmark


@dataclass(frozen=True, slots=True)
class PreparedData:
    """A benchmark, what it was filtered from, and the files on both ends of the way."""

    benchmark: Benchmark
    raw: RawStore
    sources: dict[str, str]  # sha256 of the files that were read, by path
    steps: dict[str, Artifact]  # what was made, by the name of the step, in order
