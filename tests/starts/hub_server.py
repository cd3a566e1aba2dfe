"""A server on loopback that speaks as much of the Hugging Face Hub's API as a download uses."""

import contextlib
import hashlib
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """The hub: a model `org/model` and a dataset `org/data` with the same files; `org/gated` refuses everybody."""

    files: Mapping[str, bytes]
    token: str | None = None
    """Token without which every repository is hidden."""

    held: str = ""
    """File of which only the first half is sent before `released`."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    """Method and path of each answered request for a file, with its range."""

    released: threading.Event = field(default_factory=threading.Event)

    @property
    def endpoint(self) -> str:
        """Value of HF_ENDPOINT."""
        return f"http://127.0.0.1:{self.port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        words = path.removeprefix("/api").strip("/").split("/")
        if "org" in words[:2] and words[0] != "org":
            words = words[1:]  # The kind of the repository.
        name, place, revision = (*words[1:4], "", "", "")[:3]
        login = self.headers["Authorization"]
        if login is not None and login != f"Bearer {self.hub.token}":
            self._send(401, {"X-Error-Message": "Invalid credentials in Authorization header"})
        elif login is None and self.hub.token is not None:
            self._send(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Invalid username or password."})
        elif name == "gated":
            self._send(403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to this is restricted"})
        elif name not in ("model", "data"):
            self._send(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif revision not in ("main", COMMIT):
            self._send(404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
        elif place == "revision":
            siblings = [{"rfilename": path, "size": len(content)} for path, content in self.hub.files.items()]
            self._json({"id": f"org/{name}", "sha": COMMIT, "siblings": siblings, "tags": [], "downloads": 0})
        elif place == "tree":
            self._json(
                [
                    {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                    for path, content in self.hub.files.items()
                ]
            )
        else:
            self._file("/".join(words[4:]))

    def _file(self, path: str) -> None:
        content = self.hub.files[path]
        self.hub.requests.append(f"{self.command} {path} {self.headers['Range'] or ''}".strip())
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        begin = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").split("-")[0])
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        is_held = path == self.hub.held and self.command == "GET" and not self.hub.released.is_set()
        self._send(206 if begin else 200, headers, content[begin:], half=is_held)

    def _json(self, value: object) -> None:
        self._send(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def _send(self, status: int, headers: Mapping[str, str], body: bytes = b"", *, half: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body[: len(body) // 2] if half else body)
            if half:
                self.wfile.flush()
                self.hub.released.wait(60)
                self.close_connection = True


@contextlib.contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve `hub` for this block."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            hub.released.set()
            server.shutdown()
            thread.join()
