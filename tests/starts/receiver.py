"""A server on loopback that hands over what is posted to it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def receiving(take: Callable[[BaseHTTPRequestHandler, bytes], None]) -> Iterator[int]:
    """Give each request of POST and its body to `take`, which answers it. Yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            take(self, self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join()
