"""Hosts with two healthy GPUs and one healthy adapter port each, as the base of faults.

The card is the L4 of a published answer of nvidia-smi.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pylaunch.checks.survey import Look, Survey, Wanted
from pylaunch.model.cluster import Cluster, Host

CASES = Path(__file__).parents[2] / "cases"
NAMES = ("n1", "n2", "n3")
CLUSTER = Cluster(tuple(Host(name, f"10.0.0.{index}", devices=(0, 1)) for index, name in enumerate(NAMES)))

PORT: dict[str, Any] = {
    "adapter": "mlx5_0", "port": 1, "state": "ACTIVE", "physical_state": "LinkUp", "rate_gbps": 400.0,
}  # fmt: skip


def card(index: int, **fields: Any) -> dict[str, Any]:
    card = yaml.safe_load((CASES / "nvidia_smi_xml" / "l4_idle.yaml").read_text())["card"]
    return {
        **card,
        "index": index,
        "minor": index,
        "bus": f"00000000:0{index + 1}:00.0",
        "persistence": "Enabled",
        **fields,
    }


def well() -> dict[str, Any]:
    """Return the readings of a healthy host."""
    return {
        "gpu.host": {"gpus": 2, "driver": "555.42.06"},
        "gpu.smi": {"complaint": None, "driver": "555.42.06", "cuda": "12.5", "cards": [card(0), card(1)]},
        "gpu.xid": {"uptime_s": 7200.0, "xids": []},
        "gpu.nvlink": {str(index): {"up": [0, 1, 2, 3], "down": []} for index in (0, 1)},
        "gpu.cuda": {"package": "torch", "cuda": 12},
        "occupants.processes": {"uid": 0, "processes": [], "listeners": [], "unseen": []},
        "infiniband.ports": [PORT],
    }  # fmt: skip


def survey(wanted: Wanted | None = None, **odd: Mapping[str, Any]) -> Survey:
    """Return three hosts; `odd` replaces readings by host: n2={"gpu.xid": …}."""
    looks = {name: Look({**well(), **odd.get(name, {})}) for name in NAMES}
    return Survey(CLUSTER, wanted or Wanted(), looks)


def smi(*cards: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reading of nvidia-smi with these devices."""
    return {"gpu.smi": {**well()["gpu.smi"], "cards": list(cards)}}
