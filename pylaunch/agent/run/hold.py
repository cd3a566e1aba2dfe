"""`hold`: a spare of a run stands ready, and keeps the devices that it would use for as long as somebody listens.

controller                          this process
{"devices": [0, 1]}       ──►
                          ◄──       {"held": true}, or {"taken": [who has what]} and the end
end of input              ──►       everything is given back
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time

from pylaunch.agent.shared import leases
from pylaunch.agent.shared.layout import AgentError, NodeRoot, default_root
from pylaunch.agent.shared.untrusted_json import UntrustedJsonError, parse_object

LONGEST_ORDER = 1 << 16


def _devices(order: bytes) -> list[int]:
    try:
        devices = parse_object(order, LONGEST_ORDER).get("devices")
    except UntrustedJsonError as error:
        raise AgentError(f"expected the devices to hold: {error}") from None
    if not isinstance(devices, list) or not all(isinstance(each, int) for each in devices):
        raise AgentError("expected the devices to hold")
    return devices


def serve(root: NodeRoot, run: str) -> int:
    """Hold what stdin orders for `run` until stdin ends; the exit code."""
    order = sys.stdin.buffer.readline()
    if not order:
        return 0
    devices = sorted(set(_devices(order)))
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
