#!/usr/bin/env python3
"""A stand-in for `vllm serve` without GPU and model: it checks its arguments and answers the same requests."""

import argparse
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser(prog="vllm")
parser.add_argument("command", choices=["serve"])
parser.add_argument("model")
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--tensor-parallel-size", type=int, default=1)
arguments = parser.parse_args()
devices = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
if devices and len(devices) < arguments.tensor_parallel_size:
    parser.error(f"--tensor-parallel-size {arguments.tensor_parallel_size}: {len(devices)} devices are visible")
has_loaded = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """GET /health and /v1/models, POST /v1/completions; 503 until the weights are loaded."""

    def do_GET(self) -> None:
        """Answer whether the server is healthy, or its model."""
        self._answer({"data": [{"id": arguments.model}]} if self.path == "/v1/models" else {})

    def do_POST(self) -> None:
        """Answer with the prompt. Refuse another model, as vLLM does."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_known = asked["model"] == arguments.model
        self._answer({"choices": [{"text": asked["prompt"]}]}, 200 if is_known else 404)

    def _answer(self, content: dict[str, object], status: int = 200) -> None:
        self.send_response(status if has_loaded.is_set() else 503)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        """Print no line for each request."""


def stop(*_: object) -> None:
    """End as vLLM does after SIGTERM."""
    print("Application shutdown complete.", flush=True)
    sys.exit()


signal.signal(signal.SIGTERM, stop)
threading.Timer(1.0, has_loaded.set).start()
ThreadingHTTPServer((arguments.host, arguments.port), Handler).serve_forever()
