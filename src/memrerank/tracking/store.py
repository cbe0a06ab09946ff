"""The MLflow store: opened, and created exactly once however many processes start together."""

from pathlib import Path

from filelock import FileLock
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from memrerank.errors import ConfigError
from memrerank.provenance import redact

DEFAULT_URI = "sqlite:///mlflow.db"  # relative to the working directory
DEFAULT_EXPERIMENT = "memrerank"


def ensure_store(uri: str = DEFAULT_URI, experiment: str = DEFAULT_EXPERIMENT) -> str:
    """Creates the store and the experiment where they do not exist yet; returns the experiment id.

    A SQLite store is created under a file lock, since its migrations break when several processes
    run them at once. Its artifacts go to `mlartifacts/` beside the database.

    Raises:
        ConfigError: the store cannot be opened, or the experiment was deleted in it.
    """
    database = _sqlite_path(uri)
    try:
        if database is None:
            return _experiment_id(MlflowClient(uri), experiment, artifacts=None)
        database.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{database}.lock"):
            client = MlflowClient(absolute_uri(uri))
            return _experiment_id(client, experiment, (database.parent / "mlartifacts").as_uri())
    except (OSError, MlflowException) as error:
        raise ConfigError(
            f"tracking.uri={redact(uri)}: the MLflow store cannot be opened: {error}. "
            f"The default is {DEFAULT_URI}"
        ) from error


def _sqlite_path(uri: str) -> Path | None:
    path = uri.removeprefix("sqlite:///")
    return None if path == uri else Path(path).absolute()


def absolute_uri(uri: str) -> str:
    """The same store wherever the process goes: a relative SQLite path is made absolute."""
    path = _sqlite_path(uri)
    return uri if path is None else f"sqlite:///{path}"


def _experiment_id(client: MlflowClient, name: str, artifacts: str | None) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        return client.create_experiment(name, artifact_location=artifacts)
    if found.lifecycle_stage != "active":
        raise ConfigError(
            f"tracking.experiment={name} was deleted in this store: choose another name, or "
            f"`mlflow experiments restore --experiment-id {found.experiment_id}`"
        )
    return found.experiment_id
