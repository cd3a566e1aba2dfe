"""Texts whose causes were counted in public threads: what a line of them names."""

import pytest

from tests.features.explain.judgement.verdicts import named_in, verdict_on

OF_TOOLS = {
    "n1:1:1 [0] p2p.cc:262 NCCL WARN Cuda failure 'peer access is not supported between these devices'": "no-transport",
    "[E1120 21:04:34.46 socket.cpp:957] [c10d] The client socket has timed out after 900s whi": (
        "coordinator-unreachable firewall-port"
    ),
}


@pytest.mark.parametrize("text", OF_TOOLS)
def test_what_tools_print_without_a_traceback_names_its_causes(text: str) -> None:
    assert named_in(f"start\n{text}\n") == OF_TOOLS[text]


def test_a_warning_of_a_toolkit_or_a_plugin_is_no_cause_of_a_run_that_goes_on() -> None:
    warned = (
        "W a.cc:7] Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.\n"
        "n0:1:1 [0] NCCL INFO NET/Plugin : dlerror=l.so: version `FABRIC_1.7' not found (required by /e/n.so)\n"
    )
    assert named_in(warned + "".join(f"step {step} loss 2.1\n" for step in range(9))) == ""


@pytest.mark.parametrize(
    "warned",
    [
        "Using default W8A8 kernel config. Performance might be sub-optimal! Config file not found at /opt/n.json",
        "Cannot import amp_O, using the pure python implementation",
        "Can't load optimizer state; starting from scratch",
        "Cannot find /usr/share/o.json; default values are used",
    ],
)
def test_a_line_that_says_what_is_used_instead_is_no_failure_where_the_log_goes_on(warned: str) -> None:
    assert not verdict_on(f"starting\n{warned}\nloading the model\nthe server listens\n").failed
    assert verdict_on(f"starting\n{warned}\n").failed is ("default" not in warned)
