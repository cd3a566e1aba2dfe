"""Findings about variables, and about files as they are found in the wild."""

import pytest

from pylaunch.features.variables.judgement import catalogue, judge
from pylaunch.model.setting import PER_NODE, Circumstances, LintFinding, LintLevel, Setting

GOOD = """
NCCL_SOCKET_IFNAME==eth0        NCCL_SOCKET_IFNAME=^docker,lo    NCCL_SOCKET_IFNAME=^=docker0
NCCL_IB_HCA==mlx5_0:1,mlx5_1:1  NCCL_IB_HCA==mlx5_0::0:0         NCCL_IB_HCA=^=mlx5_1
NCCL_IB_TIMEOUT=22              NCCL_IB_TIMEOUT=0x16             NCCL_IB_RETRY_CNT=7
NCCL_ALGO=allreduce:^tree       NCCL_PROTO=^LL128                NCCL_NET_GDR_LEVEL=PHB
NCCL_DEBUG=warn                 NCCL_DEBUG_SUBSYS=^COLL,NET      NCCL_IB_ADDR_RANGE=10.0.0.0/16
NCCL_NTHREADS=256               NCCL_RAS_ADDR=localhost:12345    NCCL_CTA_POLICY=EFFICIENCY
TORCH_NCCL_BLOCKING_WAIT=true   TORCH_NCCL_ASYNC_ERROR_HANDLING=3  TORCH_DISTRIBUTED_DEBUG=DETAIL
GLOO_SOCKET_IFNAME=eth0,eth1    TP_SOCKET_IFNAME=eth0            PYTORCH_ALLOC_CONF=expandable_segments:True
JAX_DEBUG_NANS=yes              JAX_PLATFORMS=cuda,cpu           JAX_COORDINATOR_ADDRESS=10.0.0.1:1234
XLA_FLAGS=--xla_dump_to=/tmp/x  XLA_CLIENT_MEM_FRACTION=.9       XLA_PYTHON_CLIENT_PREALLOCATE=false
CUDA_VISIBLE_DEVICES=0,3        CUDA_VISIBLE_DEVICES=GPU-1a-2b   OMP_NUM_THREADS=8,2
FI_LOG_LEVEL=warn               UCX_NET_DEVICES=mlx5_0:1         PATH=/bin
"""

BAD = [
    ("NCCL_IB_TIMEOUT=32", "0 … 31"),
    ("NCCL_IB_RETRY_CNT=15", "0 … 7"),
    ("NCCL_IB_DISABLE=true", "expected 0 or 1"),
    ("NCCL_SOCKET_RETRY_CNT=3s", "a whole number 1"),
    ("NCCL_SOCKET_IFNAME='eth0'", "expected names of interfaces"),
    ("NCCL_SOCKET_IFNAME=eth0, eth1", "expected names of interfaces"),
    ("NCCL_SOCKET_IFNAME=averyverylongname0", "expected names of interfaces"),
    ("NCCL_IB_HCA=mlx5_0:one", "hca[:port"),
    ("NCCL_DEBUG=debug", "expected one of VERSION"),
    ("NCCL_NET_GDR_LEVEL=5", "expected one of LOC"),
    ("TORCH_NCCL_BLOCKING_WAIT=on", "expected one of 1, true"),
    ("TORCH_DISTRIBUTED_DEBUG=VERBOSE", "OFF, INFO, DETAIL"),
    ("TP_SOCKET_IFNAME=eth0,eth1", "the name of an interface"),
    ("NCCL_SOCKET_IFNAME=10.0.0.1", "expected names of interfaces"),
    ("GLOO_SOCKET_IFNAME=eth0,10.0.0.1", "expected names of interfaces"),
    ("GLOO_SOCKET_IFNAME==eth0", "names of interfaces"),
    ("XLA_FLAGS=xla_dump_to=/tmp", "flags --xla_"),
    ("XLA_CLIENT_MEM_FRACTION=much", "number"),
    ("CUDA_VISIBLE_DEVICES=0,gpu1", "CUDA ignores another word"),
    ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments=True", "key:value"),
    ("OMP_NUM_THREADS=0", "at least 1"),
]


def setting(text: str) -> Setting:
    name, _, value = text.partition("=")
    return Setting(name, value, "here")


def only(findings: tuple[LintFinding, ...]) -> LintFinding:
    (finding,) = findings
    return finding


def test_what_is_said_of_a_name_is_said_of_one_that_exists_and_of_no_other() -> None:
    names = catalogue()
    assert names.read >= {*names.debug_only, *names.values}
    assert {*names.read, *names.unread} >= PER_NODE
    assert names.read.isdisjoint(names.unread)


@pytest.mark.parametrize("text", GOOD.split())
def test_a_right_value_is_not_worth_a_word(text: str) -> None:
    assert judge([setting(text)]) == ()


@pytest.mark.parametrize(("text", "complaint"), BAD, ids=lambda value: str(value)[:40])
def test_a_wrong_value_is_an_error_that_says_what_was_expected(text: str, complaint: str) -> None:
    finding = only(judge([setting(text)]))
    assert finding.severity is LintLevel.ERROR
    assert complaint in finding.message
    assert finding.subject == text


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOKCET_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("TORCH_NCCL_BLOCKING_WAITS", "TORCH_NCCL_BLOCKING_WAIT"),
        ("JAX_DEBUG_NAN", "JAX_DEBUG_NANS"),
        ("XLA_PYTHON_CLIENT_PREALOCATE", "XLA_PYTHON_CLIENT_PREALLOCATE"),
        ("GLOO_SOCKET_IFNAM", "GLOO_SOCKET_IFNAME"),
    ],
)
def test_a_misspelled_name_is_an_error_that_names_the_right_one(name: str, meant: str) -> None:
    finding = only(judge([setting(f"{name}=1")]))
    assert (finding.severity, finding.instead) == (LintLevel.ERROR, meant)


def test_an_unknown_name_may_be_a_plugins_and_its_value_is_never_shown() -> None:
    finding = only(judge([setting("NCCL_GPUDIRECTTCPX_TOKEN=secret")]))
    assert finding.severity is LintLevel.WARNING
    assert "secret" not in finding.line
    assert judge([setting("OFI_NCCL_PROTOCOL=RDMA"), setting("AWS_SECRET_ACCESS_KEY=secret")]) == ()


def test_a_finding_about_a_name_that_nothing_reads_has_the_name_that_is_read() -> None:
    finding = only(judge([setting("NCCL_IB_GDR_LEVEL=1")]))
    assert (finding.severity, finding.instead) == (LintLevel.WARNING, "NCCL_NET_GDR_LEVEL")


@pytest.mark.parametrize(
    ("text", "kept"), [("NCCL_DEBUG=INFO", True), ("NCCL_P2P_DISABLE=1", True), ("NCCL_P2P_DISABLE=0", False)]
)
def test_a_setting_for_debugging_is_a_warning_where_it_is_kept(text: str, kept: bool) -> None:
    found = judge([setting(text)], Circumstances(debug=LintLevel.WARNING))
    assert [each.severity for each in found] == [LintLevel.WARNING] * kept
    assert judge([setting(text)]) == ()


def test_loopback_is_an_error_between_machines_and_right_on_one() -> None:
    loopback = [setting("NCCL_SOCKET_IFNAME==lo")]
    assert only(judge(loopback, Circumstances(machines=2))).severity is LintLevel.ERROR
    assert judge(loopback, Circumstances(machines=1)) == ()
    assert judge(loopback) == ()


def test_one_address_for_all_nodes_is_reported_where_each_has_its_own() -> None:
    address = [setting("VLLM_HOST_IP=10.0.0.1")]
    finding = only(judge(address, Circumstances(machines=2)))
    assert (finding.severity, finding.message) == (
        LintLevel.WARNING, "the address of one machine, on all 2: each has its own",
    )  # fmt: skip
    assert judge(address, Circumstances(machines=1)) == ()
