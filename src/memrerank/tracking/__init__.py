"""All that touches MLflow: no other room imports it.

Lightning's logger is in `memrerank.tracking.lightning`, for training alone: it takes seconds to
import, which evaluation need not wait for.
"""

from memrerank.tracking.run import Run, end_status, open_run
from memrerank.tracking.search import TrainingRun, find_training_run
from memrerank.tracking.store import DEFAULT_EXPERIMENT, DEFAULT_URI, ensure_store

__all__ = [
    "DEFAULT_EXPERIMENT",
    "DEFAULT_URI",
    "Run",
    "TrainingRun",
    "end_status",
    "ensure_store",
    "find_training_run",
    "open_run",
]
