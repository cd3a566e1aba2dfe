"""Facts that a node reports are bounded, and their times are on the controller's clock."""

from __future__ import annotations

from pylaunch import protocol
from pylaunch.launch.follow.host_facts import LONGEST, MOST, host_evidence


def test_times_are_converted_and_their_uncertainty_is_kept() -> None:
    message = protocol.NodeEvidence(105.0, 0.1, [protocol.KernelMessage("link-down", 103.0, "eth0: Link down", "eth0")])
    found = host_evidence("n2", message, lambda time: time - 5.0, 0.25)
    assert (found.host, found.time, found.uncertainty_s) == ("n2", 100.0, 0.25)
    (event,) = found.kernel
    assert (event.kind, event.time, event.device) == ("link-down", 98.0, "eth0")


def test_a_node_can_fill_neither_the_record_nor_the_terminal() -> None:
    long = "x" * 100_000
    message = protocol.NodeEvidence(
        1.0, 0.1,
        [protocol.KernelMessage(long, 1.0, long, long) for _ in range(1000)],
        [protocol.RankSocket(0, long, long, 1, long, 2, 3, 0, 4) for _ in range(1000)],
        1, [long] * 1000, {f"{number} {long}": 1 for number in range(1000)},
        {f"{number} {long}": 1.0 for number in range(1000)}, 0.0, [long] * 1000,
    )  # fmt: skip
    found = host_evidence("n2", message, lambda time: time, 0.0)
    assert len(found.kernel) == len(found.stuck) == len(found.addresses) == MOST
    assert max(len(found.rises), len(found.gauges), len(found.missing)) <= MOST
    texts = [found.kernel[0].text, found.stuck[0].peer, found.addresses[0], found.missing[0], *found.rises]
    assert max(map(len, texts)) == LONGEST


def test_a_counter_that_did_not_rise_is_left_out() -> None:
    message = protocol.NodeEvidence(1.0, 0.1, rises={"eth0 rx_errors": -4, "eth0 carrier_changes": 2})
    assert host_evidence("n2", message, lambda time: time, 0.0).rises == {"eth0 carrier_changes": 2}
