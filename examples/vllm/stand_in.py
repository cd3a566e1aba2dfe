#!/usr/bin/env python3
"""A stand-in for `vllm serve` without GPU and model: it checks its arguments and answers the same
requests. Of several nodes, the first answers when all others have connected to it.
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("command", choices=["serve"])
parser.add_argument("model")
parser.add_argument("--nnodes", type=int, default=1)
parser.add_argument("--node-rank", type=int, default=0)
parser.add_argument("--headless", action="store_true")
parser.add_argument("--master-addr")
parser.add_argument("--master-port")
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--tensor-parallel-size", type=int, default=1)
parser.add_argument("--pipeline-parallel-size", type=int, default=1)
arguments = parser.parse_args()
devices = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
if devices and len(devices) < arguments.tensor_parallel_size:
    parser.error(f"--tensor-parallel-size {arguments.tensor_parallel_size}: {len(devices)} devices are visible")
if {"RANK", "WORLD_SIZE"}.intersection(os.environ) and arguments.nnodes > 1:
    parser.error("RANK and WORLD_SIZE are those of processes of the server")
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


def meet() -> None:
    """Connect the nodes; the others stay as long as the first one."""
    host, port = arguments.master_addr, arguments.master_port
    if arguments.node_rank == 0:
        with socket.create_server((host, int(port))) as listener:
            connections.extend(listener.accept()[0] for _ in range(arguments.nnodes - 1))
        return
    if not arguments.headless:
        parser.error("each node but the first is headless")
    while True:
        try:
            with socket.create_connection((host, int(port))) as connection:
                connection.recv(1)
            sys.exit("error: the first node has ended")
        except ConnectionRefusedError:
            signal.sigtimedwait((), 0.1)


connections: list[socket.socket] = []
signal.signal(signal.SIGTERM, stop)
if arguments.nnodes > 1:
    meet()
threading.Timer(1.0, has_loaded.set).start()
ThreadingHTTPServer((arguments.host, arguments.port), Handler).serve_forever()
