"""What the entry points share: errors for people, not tracebacks."""

import logging
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from memrerank.errors import MemrerankError

Result = TypeVar("Result")

log = logging.getLogger("memrerank")


def friendly_errors(main: Callable[..., Result]) -> Callable[..., Result]:
    """Ends the process with the message alone when the user can act on the error.

    In a sweep the error is raised on, so that Hydra marks the job as failed. The traceback is
    kept in the job's log file, at level DEBUG, and shown with MEMRERANK_TRACEBACK=1.
    """

    @wraps(main)
    def wrapped(*args: object) -> Result:
        quiet_libraries()
        try:
            return main(*args)
        except MemrerankError as error:
            log.debug("traceback", exc_info=True)
            if os.environ.get("MEMRERANK_TRACEBACK") or in_sweep():
                raise
            sys.exit(f"\n{type(error).__name__}: {error}")

    return wrapped


def in_sweep() -> bool:
    """Whether this is a job of `python ... -m`."""
    return HydraConfig.initialized() and HydraConfig.get().mode is RunMode.MULTIRUN


def quiet_libraries() -> None:
    """Leaves the libraries' warnings and drops their progress chatter."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    chatty = ["httpx", "httpx2", "alembic", "mlflow.store", "sentence_transformers"]
    for name in [*chatty, "lightning.pytorch", "faiss.loader"]:
        logging.getLogger(name).setLevel(logging.WARNING)
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
