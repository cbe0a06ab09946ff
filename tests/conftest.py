"""Keeps every test off the network and inside the machine's share of cores."""

import os
import sys
from collections.abc import Iterator

# Read when mlflow, huggingface_hub and torch are first imported: before any test module.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from chat_server import ChatServer, Respond, Start
from pytest_socket import socket_allow_hosts

LOCAL_HOSTS = ["127.0.0.1", "::1"]


def pytest_configure() -> None:
    """Limits torch's threads where a plugin has imported it before this file set the variable."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def pytest_runtest_setup() -> None:
    """Blocks connections to anything but this machine; pytest-socket lifts it after each test."""
    socket_allow_hosts(LOCAL_HOSTS, allow_unix_socket=True)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers that speak chat completions, and closes them after the test."""
    servers: list[ChatServer] = []

    def make(respond: Respond) -> ChatServer:
        servers.append(ChatServer(respond))
        return servers[-1]

    yield make
    for server in servers:
        server.close()
