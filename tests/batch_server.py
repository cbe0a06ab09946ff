"""A real HTTP server on this machine that speaks the files and batches endpoints."""

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What becomes of a request of a batch: its line in the output file (True) or the error file.
Outcome = tuple[bool, dict[str, Any]]


def done(completion: dict[str, Any]) -> Outcome:
    return True, {"response": {"status_code": 200, "body": completion}, "error": None}


def failed(status: int, message: str) -> Outcome:
    return False, {"response": {"status_code": status, "body": {"error": {"message": message}}}}


def expired() -> Outcome:
    return False, {"response": None, "error": {"code": "batch_expired", "message": "expired"}}


class BatchServer:
    """Ends a batch after `looks` retrievals, with what `settle` makes of each request."""

    def __init__(
        self,
        settle: Callable[[dict[str, Any]], Outcome | None],
        *,
        looks: int = 2,
        status: str = "completed",
    ) -> None:
        self.settle = settle
        self.looks = looks
        self.status = status
        self.files: dict[str, str] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two writes

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.calls.append(f"POST {self.path}")
                self._send(server.post(self.path, body))

            def do_GET(self) -> None:
                server.calls.append(f"GET {self.path}")
                self._send(server.get(self.path))

            def _send(self, answer: tuple[int, Any]) -> None:
                status, content = answer
                data = (
                    content.encode() if isinstance(content, str) else json.dumps(content).encode()
                )
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Keeps the test output clean."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def post(self, path: str, body: bytes) -> tuple[int, Any]:
        if path == "/v1/files":
            name = f"file-{len(self.files)}"
            # The part of the form that is the file: its lines are JSON objects.
            self.files[name] = "\n".join(re.findall(r"^\{.*\}$", body.decode(), re.MULTILINE))
            return 200, {
                "id": name,
                "object": "file",
                "bytes": len(body),
                "created_at": 1,
                "filename": "requests.jsonl",
                "purpose": "batch",
                "status": "processed",
            }
        wanted = json.loads(body)
        assert wanted["endpoint"] == "/v1/chat/completions"
        name = f"batch-{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": wanted["endpoint"],
            "input_file_id": wanted["input_file_id"],
            "completion_window": wanted["completion_window"],
            "created_at": 1,
            "status": "validating",
            "looks": 0,
        }
        return 200, self.batches[name]

    def get(self, path: str) -> tuple[int, Any]:
        if found := re.fullmatch(r"/v1/files/([\w-]+)/content", path):
            return 200, self.files[found.group(1)]
        batch = self.batches.get(path.removeprefix("/v1/batches/"))
        if batch is None:
            return 404, {"error": {"message": "no such batch", "code": "not_found"}}
        batch["looks"] += 1
        if batch["looks"] > self.looks and batch["status"] == "validating":
            self._end(batch)
        return 200, batch

    def _end(self, batch: dict[str, Any]) -> None:
        lines: dict[bool, list[str]] = {True: [], False: []}
        for text in self.files[batch["input_file_id"]].splitlines():
            request = json.loads(text)
            outcome = self.settle(request["body"])
            if outcome is not None:
                good, line = outcome
                lines[good].append(json.dumps({"custom_id": request["custom_id"], **line}))
        batch["status"] = self.status
        for name, good in (("output_file_id", True), ("error_file_id", False)):
            if lines[good]:
                file = f"file-{len(self.files)}"
                self.files[file] = "\n".join(reversed(lines[good]))  # in no order
                batch[name] = file
        total = sum(map(len, lines.values()))
        batch["request_counts"] = {
            "total": total,
            "completed": len(lines[True]),
            "failed": len(lines[False]),
        }
