"""A server that generates samples with the weights that the trainer sent last: python rollout.py PORT."""

import io
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

model = torch.nn.Linear(8, 1)
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    """GET /health, GET /samples, PUT /weights."""

    def do_GET(self) -> None:
        """Answer with inputs and outputs of the model."""
        body = b"ready"
        if self.path == "/samples":
            inputs = torch.randn(32, 8)
            with lock, torch.no_grad():
                outputs = model(inputs)
            buffer = io.BytesIO()
            torch.save((inputs, outputs), buffer)
            body = buffer.getvalue()
        self._answer(body)

    def do_PUT(self) -> None:
        """Take weights."""
        weights = torch.load(io.BytesIO(self.rfile.read(int(self.headers["Content-Length"]))), weights_only=True)
        with lock:
            model.load_state_dict(weights)
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print no line for each request."""


print(f"serving on port {sys.argv[1]}", flush=True)
ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
