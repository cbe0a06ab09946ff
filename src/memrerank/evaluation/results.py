"""The result of one evaluation run, as it lies in the run's folder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from memrerank.errors import DataError
from memrerank.storage import write_json

RESULT_FILE = "result.json"


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run was (labels), what came out (metrics), and each query's share in it."""

    labels: dict[str, str]  # category, target, retriever, baseline, reranker, seed
    metrics: dict[str, float]  # mrr_at_10, recall_at_100, memory_words, calls_per_query...
    per_query: dict[str, dict[str, float]]  # mrr_at_10 and mrr_at_5 -> query id -> value

    def write(self, path: Path) -> None:
        """Writes the result as JSON, atomically."""
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "RunResult":
        """Reads what `write` wrote.

        Raises:
            DataError: no such file, or not a result.
        """
        try:
            value = json.loads(path.read_text())
            return cls(
                labels={str(k): str(v) for k, v in value["labels"].items()},
                metrics={str(k): float(v) for k, v in value["metrics"].items()},
                per_query={
                    str(measure): {str(k): float(v) for k, v in values.items()}
                    for measure, values in value["per_query"].items()
                },
            )
        except FileNotFoundError as error:
            raise DataError(f"{path}: no such result; the run did not finish") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path}: not the result of a run ({type(error).__name__}: {error}); run it again"
            ) from error
