"""How many calls a second the chat client makes, and how much memory it takes over many.

    python benchmarks/judge_client.py

A server on this machine answers after the latency. What can be had is the smaller of two limits:
calls in flight over latency, and what the server itself answers to a bare client that sends the
same bytes over sockets and reads nothing of the answers. Prints Markdown.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

from judge_server import running

from memrerank.rerank.chat import ChatClient
from memrerank.rerank.prompting import setwise_prompt
from memrerank.rerank.session import ChatSettings
from memrerank.schema import Comparison, Memory, Product

WARM_UP = 500  # calls that open the connections


def messages(words: int) -> list[dict[str, str]]:
    """A question with candidates of so many words."""
    products = tuple(Product(f"p{i}", "word " * words + f"#{i}", "", "c") for i in range(5))
    return setwise_prompt(Comparison("q", "a lamp", Memory("likes lamps"), products)).messages


async def bare(url: str, body: bytes, calls: int, concurrency: int) -> float:
    """Calls a second of a client that does next to nothing."""
    host, port = url.removeprefix("http://").split("/")[0].split(":")
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}"
    request = head.encode() + b"\r\n\r\n" + body
    left = calls

    async def work() -> None:
        nonlocal left
        reader, writer = await asyncio.open_connection(host, int(port))
        while left > 0:
            left -= 1
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length: ")[1].split(b"\r")[0])
            await reader.readexactly(length)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return calls / (time.perf_counter() - started)


def make_client(url: str, concurrency: int) -> ChatClient:
    """The product's client."""
    return ChatClient(
        ChatSettings(
            model="m",
            base_url=url,
            api_key_env="",
            max_completion_tokens=16,
            max_concurrency=concurrency,
            timeout=60.0,
            max_retries=2,
        )
    )


def held_mb() -> float:
    """Megabytes of this process's memory that are no mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def run_client(
    client: ChatClient, question: list[dict[str, str]], calls: int, every: int
) -> tuple[float, list[float]]:
    """Calls a second, and the memory held after each `every` calls."""
    held: list[float] = []
    done = 0

    def on_answer(*_: object) -> None:
        nonlocal done
        done += 1
        if done % every == 0:
            held.append(held_mb())

    def requests() -> Iterator[dict]:
        for _ in range(calls):
            yield client.request(question)

    started = time.perf_counter()
    answers = client.complete(requests(), on_answer)
    seconds = time.perf_counter() - started
    assert all(answer.failure is None for answer in answers)
    return calls / seconds, held


def print_speed(options: argparse.Namespace) -> None:
    """Ours against what can be had, a row for each latency."""
    question = messages(options.words)
    body = json.dumps({"model": "m", "messages": question}).encode()
    print(
        "| latency ms | in flight | latency allows | server alone | ours | ours / what is allowed |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for latency in options.latency_ms:
        with running(latency) as url:
            allowed = options.concurrency / (latency / 1000)
            asyncio.run(bare(url, body, WARM_UP, options.concurrency))
            bare_calls = max(WARM_UP, int(min(allowed, 5000) * 2))
            alone = asyncio.run(bare(url, body, bare_calls, options.concurrency))
            client = make_client(url, options.concurrency)
            run_client(client, question, WARM_UP, WARM_UP)
            ours, _ = run_client(client, question, options.calls, options.calls)
            client.close()
        most = min(allowed, alone)
        told = f"{allowed:,.0f} | {alone:,.0f} | {ours:,.0f} | {ours / most:.2f}"
        print(f"| {latency:.0f} | {options.concurrency} | {told} |", flush=True)


def print_memory(options: argparse.Namespace) -> None:
    """Memory held on the way through many calls."""
    question = messages(options.words)
    every = options.memory_calls // 5
    with running(1.0) as url:
        client = make_client(url, options.concurrency)
        run_client(client, question, WARM_UP, WARM_UP)
        before = held_mb()
        _, held = run_client(client, question, options.memory_calls, every)
        client.close()
    print("\n| calls | memory held MB |\n| ---: | ---: |")
    for calls, megabytes in enumerate([before, *held]):
        print(f"| {calls * every:,} | {megabytes:.1f} |")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[20.0, 100.0, 300.0])
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--memory-calls", type=int, default=50_000)
    parser.add_argument("--words", type=int, default=60, help="of each candidate")
    options = parser.parse_args()
    print_speed(options)
    print_memory(options)


if __name__ == "__main__":
    main()
