"""What the entry points share: errors for people, not tracebacks."""

import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.types import RunMode

from memrerank.errors import MemrerankError

Result = TypeVar("Result")

log = logging.getLogger("memrerank")


def friendly_errors(main: Callable[..., Result]) -> Callable[..., Result]:
    """Ends the process with the message alone when the user can act on the error, or stopped it.

    In a sweep the error is raised on, so that Hydra marks the job as failed. The traceback is
    kept in the job's log file, at level DEBUG, and shown with MEMRERANK_TRACEBACK=1.
    """

    @wraps(main)
    def wrapped(*args: object) -> Result:
        quiet_libraries()
        try:
            return main(*args)
        except (MemrerankError, InstantiationException) as error:
            ours = find_ours(error)
            log.debug("traceback", exc_info=True)
            if ours is None or os.environ.get("MEMRERANK_TRACEBACK") or in_sweep():
                raise
            sys.exit(f"\n{type(ours).__name__}: {ours}")
        except KeyboardInterrupt:
            log.debug("traceback", exc_info=True)
            if os.environ.get("MEMRERANK_TRACEBACK") or in_sweep():
                raise
            print("\nStopped. What was made and recorded stays.", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)

    return wrapped


def find_ours(error: BaseException | None) -> MemrerankError | None:
    """The error itself, or the one that Hydra wrapped while it made an object; None: no such."""
    while error is not None and not isinstance(error, MemrerankError):
        error = error.__cause__
    return error


def in_sweep() -> bool:
    """Whether this is a job of `python ... -m`."""
    return HydraConfig.initialized() and HydraConfig.get().mode is RunMode.MULTIRUN


# Each is a warning about something that is meant to be so.
EXPECTED_WARNINGS = (
    r".*is_gradient_checkpointing.*",
    r".*LeafSpec.*",
    r".*You have overridden `transfer_batch_to_device`.*",
    r".*does not have many workers.*",
    r".*`IterableDataset` has `__len__` defined.*",
    r".*module\(s\) in eval mode at the start of training.*",  # dropout is 0 in the frozen base
    r"(?s).*Using ModelCheckpoint with manual optimization.*",  # after the step is what is wanted
    r".*Checkpoint directory .* exists and is not empty.*",  # a resumed run
    r".*ended before the epoch ended and your dataloader is not resumable.*",  # the schedule is
)


def quiet_libraries() -> None:
    """Drops the libraries' progress chatter and the warnings listed above, and no others."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for message in EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message=message)
    chatty = ["httpx", "httpx2", "alembic", "mlflow.store", "sentence_transformers"]
    chatty += ["lightning.pytorch", "lightning.pytorch.utilities.rank_zero", "faiss.loader"]
    for name in chatty:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # a kernel package for 4-bit on CPU
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
