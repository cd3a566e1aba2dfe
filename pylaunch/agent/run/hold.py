"""`hold`: lease the devices of a spare node, until the controller closes the connection.

controller                          this process
{"devices": [0, 1]}       ──►
                          ◄──       {"held": true}, or {"taken": [devices with their holders]} and exit
end of input              ──►       all leases are released
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time

from pylaunch.agent.shared import leases
from pylaunch.base.layout import AgentError, NodeRoot, default_root
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object

MAX_REQUEST = 1 << 16


def _devices(request: bytes) -> list[int]:
    try:
        devices = parse_object(request, MAX_REQUEST).get("devices")
    except UntrustedJsonError as error:
        raise AgentError(f"expected the devices to hold: {error}") from None
    if not isinstance(devices, list) or not all(isinstance(each, int) for each in devices):
        raise AgentError("expected the devices to hold")
    return devices


def serve(root: NodeRoot, run: str) -> int:
    """Lease the devices that stdin names for `run` until stdin ends; return the exit code."""
    request = sys.stdin.buffer.readline()
    if not request:
        return 0
    devices = sorted(set(_devices(request)))
    since = time.time()
    held: list[socket.socket] = []
    taken: list[str] = []
    names = {index: leases.device_name(index, root.path, default_root()) for index in devices}
    bound = {index: leases.bind(name) for index, name in names.items()}
    found = leases.holders(names[index] for index, lease in bound.items() if lease is None)
    for index, name in names.items():
        lease = bound[index] or found[name] or leases.take(name)
        if isinstance(lease, leases.Holder):
            taken.append(f"device {index} is leased to {lease}")
        else:
            held.append(lease)
    print(json.dumps({"taken": taken} if taken else {"held": True}), flush=True)
    while not taken:
        ready, _, _ = select.select([sys.stdin, *held], [], [])
        if sys.stdin in ready and not os.read(sys.stdin.fileno(), 1):
            break
        for lease in held:
            leases.answer(lease, run, devices, since, is_spare=True)
    return 0
