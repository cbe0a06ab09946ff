"""A real HTTP server on this machine that speaks what the Hugging Face client asks of the hub.

Sizes are told by `POST /api/datasets/{repository}/paths-info/main`; files come from
`GET /datasets/{repository}/resolve/main/{name}`, in ranges where asked. Large files are sent on to
a second address with a signature, as the hub does, where the token must not be seen.
"""

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

SIGNATURE = "Signature=opens-what-it-names"


@dataclass(frozen=True, slots=True)
class Request:
    """What came in."""

    method: str
    path: str
    range: str | None
    authorization: str | None


@dataclass
class HubServer:
    """Serves `files`; the other fields say what goes wrong.

    Args:
        files: content by repository and name.
        large: names that the hub knows the sha256 of and keeps elsewhere.
        refuse: status and the hub's error code, by repository.
        break_at: each body ends at this byte of its file, and the connection with it.
        hang_at: each body comes to a halt at this byte of its file.
        told_sizes: sizes that paths-info gives in place of the true ones.
        told_sha256: the same for checksums.
        ranges: False sends whole files whatever is asked.
    """

    files: dict[str, dict[str, bytes]]
    large: frozenset[str] = frozenset()
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict)
    break_at: int | None = None
    hang_at: int | None = None
    told_sizes: dict[str, int] = field(default_factory=dict)
    told_sha256: dict[str, str] = field(default_factory=dict)
    ranges: bool = True

    def __post_init__(self) -> None:
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._servers = [_start(self), _start(self)]
        self.url, self.storage_url = [
            f"http://127.0.0.1:{one.server_port}" for one in self._servers
        ]

    def close(self) -> None:
        """Ends hanging answers and frees the ports."""
        self.closing.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def gets(self) -> list[Request]:
        """The requests for content, at the address that it came from."""
        place = "/storage/" if self.large else "/datasets/"
        return [one for one in self.requests if one.path.startswith(place)]

    def info(self, repository: str, name: str) -> dict[str, object]:
        """What paths-info tells of a file."""
        content = self.files[repository][name]
        size = self.told_sizes.get(name, len(content))
        info = {
            "type": "file",
            "path": name,
            "size": size,
            "oid": hashlib.sha1(content).hexdigest(),
        }
        if name not in self.large:
            return info
        sha256 = self.told_sha256.get(name, hashlib.sha256(content).hexdigest())
        return info | {"lfs": {"oid": sha256, "size": size, "pointerSize": 130}}


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: object) -> None:
        """Nothing: a client that is killed breaks its connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._note()
        match = re.fullmatch("/api/datasets/(.+)/paths-info/main", self.path)
        assert match
        repository = match[1]
        if not self._refused(repository):
            wanted = parse_qs(body)["paths"]
            known = [name for name in wanted if name in self.hub.files[repository]]
            answer = [self.hub.info(repository, name) for name in known]
            self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def do_GET(self) -> None:
        self._note()
        path = unquote(urlsplit(self.path).path)
        match = re.fullmatch("/(datasets|storage)/(.+)/resolve/main/(.+)", path)
        assert match
        place, repository, name = match.groups()
        if self._refused(repository):
            return
        if place == "datasets" and name in self.hub.large:
            stored = f"{self.hub.storage_url}/storage/{repository}/resolve/main/{name}"
            self._send(302, b"", {"Location": f"{stored}?{SIGNATURE}"})
        else:
            self._send_file(self.hub.files[repository][name])

    def log_message(self, *args: object) -> None:
        """Keeps the test output clean."""

    def _note(self) -> None:
        seen = (self.headers[name] for name in ("Range", "Authorization"))
        self.hub.requests.append(Request(self.command, self.path, *seen))

    def _refused(self, repository: str) -> bool:
        refusal = self.hub.refuse.get(repository)
        if repository not in self.hub.files:
            refusal = (404, "RepoNotFound")
        if refusal is None:
            return False
        self._send(refusal[0], b"{}", {"X-Error-Code": refusal[1]})
        return True

    def _send_file(self, content: bytes) -> None:
        start, status = 0, 200
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": "0" * 40}
        if self.hub.ranges and self.headers["Range"]:
            match = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])
            assert match
            start, status = int(match[1]), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._send(status, content[start:], headers, start)

    def _send(self, status: int, body: bytes, headers: dict[str, str], start: int = 0) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        stops = [stop for stop in (self.hub.break_at, self.hub.hang_at) if stop is not None]
        is_file = "ETag" in headers
        if not is_file or not stops or min(stops) >= start + len(body):
            self.wfile.write(body)
            return
        self.wfile.write(body[: max(min(stops) - start, 0)])
        self.wfile.flush()
        if self.hub.hang_at is not None:
            self.hub.closing.wait()
        self.close_connection = True


def _start(hub: HubServer) -> _QuietServer:
    server = _QuietServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server
