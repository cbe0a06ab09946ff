"""A real HTTP server on this machine that speaks chat completions, with answers made up."""

import json
import math
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], Any]  # status, headers, JSON body (or bytes)
Respond = Callable[[dict[str, Any], int], Reply]


CUT = 0  # the status of a reply that never comes: the connection is closed instead
PRODUCT = re.compile(r'<product label="(\w)">(.*?)</product>')


class _QuietHTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # clients open many connections at once

    def handle_error(self, *args: Any) -> None:
        """Nothing: a client that gives up on a request breaks its connection."""


class ChatServer:
    """Answers with what `reply(request, how many came before)` returns; keeps all requests."""

    def __init__(self, reply: Respond) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.in_flight = 0
        self.most_in_flight = 0
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two writes

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    number = len(server.requests)
                    server.requests.append(body)
                    server.keys.add(self.headers["Authorization"])
                    server.in_flight += 1
                    server.most_in_flight = max(server.most_in_flight, server.in_flight)
                status, headers, content = reply(body, number)
                if status == CUT:
                    with lock:
                        server.in_flight -= 1
                    self.close_connection = True
                    self.connection.close()
                    return
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                with lock:
                    server.in_flight -= 1
                self.send_response(status)
                sent = {"Content-Type": "application/json", "Content-Length": len(data), **headers}
                for name, value in sent.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Keeps the test output clean."""

        self._http = _QuietHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def answer(
    text: str | None,
    finish: str = "stop",
    *,
    refusal: str | None = None,
    top_logprobs: Sequence[tuple[str, float]] = (),
    cached_tokens: int = 0,
) -> Reply:
    """A completion; `top_logprobs` are (token, probability) pairs of the first token."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
    if top_logprobs:
        tops = [{"token": token, "logprob": math.log(share)} for token, share in top_logprobs]
        choice["logprobs"] = {"content": [{**tops[0], "top_logprobs": tops}]}
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "total_tokens": 110,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return 200, {}, {**head, "choices": [choice], "usage": usage}


def refusal(status: int, code: str, **headers: str) -> Reply:
    return status, headers, {"error": {"message": f"no: {code}", "code": code, "param": "top_p"}}


Start = Callable[[Respond], ChatServer]


def cut_connection() -> Reply:
    return CUT, {}, b""


def hidden_order(
    score: Callable[[str], float],
    *,
    latency: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
    faults: Mapping[int, Reply] | None = None,
) -> Respond:
    """Answers with the label of the product with the highest score, or all labels best first.

    Args:
        score: of a product's text as the prompt shows it.
        latency: seconds before each answer.
        noise: standard deviation of what is added to each score, each time anew.
        seed: of the noise.
        faults: replies that take the place of an answer, by the number of the request.
    """
    source = random.Random(seed)

    def reply(body: dict[str, Any], number: int) -> Reply:
        time.sleep(latency)
        if faults and number in faults:
            return faults[number]
        prompt = body["messages"][1]["content"]
        shown = [
            (score(text) + source.gauss(0, noise), label) for label, text in PRODUCT.findall(prompt)
        ]
        best_first = [label for _, label in sorted(shown, reverse=True)]
        return answer(" > ".join(best_first) if "In which order" in prompt else best_first[0])

    return reply
