"""A chat-completions server on this machine, for measuring what asks it.

    python benchmarks/judge_server.py --latency-ms 20

It prints its port, answers each request after the latency with the label of the best product, and
serves until its input is closed. A product's title ends in `#<number>`; the smallest number is the
best. One process, one event loop, nothing but what the measurement needs: its own limit has to be
far from that of the client.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PRODUCT = re.compile(rb'<product label=\\"([A-T])\\">[^<]*?#(\d+)<')
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "


def body(label: bytes, rank_order: bytes) -> bytes:
    """A completion as OpenAI-compatible servers send it."""
    text = rank_order or label
    return (
        b'{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
        b'"finish_reason":"stop","message":{"role":"assistant","content":"' + text + b'"}}],'
        b'"usage":{"prompt_tokens":400,"completion_tokens":1,"total_tokens":401}}'
    )


def respond(request: bytes) -> bytes:
    """The best product's label, or all of them where the prompt asks for the order."""
    found = sorted((int(rank), label) for label, rank in PRODUCT.findall(request))
    labels = [label for _, label in found] or [b"A"]
    order = b" > ".join(labels) if b"In which order" in request else b""
    content = body(labels[0], order)
    return HEAD + str(len(content)).encode() + b"\r\n\r\n" + content


class Connection(asyncio.Protocol):
    """One keep-alive connection: one request at a time, as HTTP/1.1 clients send them."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.data = bytearray()
        self.loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return
        found = LENGTH.search(self.data, 0, end)
        size = end + 4 + (int(found.group(1)) if found else 0)
        if len(self.data) >= size:
            answer = respond(bytes(self.data[end:size]))
            del self.data[:size]
            self.loop.call_later(self.latency, self.send, answer)

    def send(self, answer: bytes) -> None:
        """Writes the answer, unless the client has gone."""
        if not self.transport.is_closing():
            self.transport.write(answer)  # type: ignore[attr-defined]


async def serve(latency: float) -> None:
    """Serves until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(latency), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def running(latency_ms: float) -> Iterator[str]:
    """A server in a process of its own; yields its base URL."""
    command = [sys.executable, __file__, "--latency-ms", str(latency_ms)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{json.loads(process.stdout.readline())}/v1"
        finally:
            process.kill()


def main() -> None:
    """Serves with the given latency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    asyncio.run(serve(parser.parse_args().latency_ms / 1000))


if __name__ == "__main__":
    main()
