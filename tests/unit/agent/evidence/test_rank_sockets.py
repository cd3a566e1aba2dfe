"""Lines as Linux 6.1 prints them in /proc/net/tcp and tcp6."""

from hypothesis import given
from hypothesis import strategies as st

from pylaunch.agent.evidence.node_facts import TcpConnection, parse, unanswered
from pylaunch.protocol import StuckConnection

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
WELL = "   1: 01DCD50A:961C 0BDCD50A:0016 01 00000000:00000000 02:000AAD30 00000000     0        0 7869020 3 0 21 4 30"
BLOCKED = "   2: 0100A8C0:9C40 0200A8C0:7530 01 00010000:00000000 01:00000512 00000005  1000        0 7001 2 0 9 4 30"
LEFT = "   4: 0100A8C0:9C42 0200A8C0:7530 04 00000401:00000000 01:00000512 00000002     0        0 0 2 0 9 4 30"
CONNECTS = "   5: 0100A8C0:9C43 0200A8C0:7530 02 00000001:00000000 01:00000512 00000003  1000        0 7003 2 0 9 4 30"
OPENED = "   8: 0100A8C0:9C44 0200A8C0:7530 03 00000000:00000000 01:00000512 00000002     0        0 0 2 0 9 4 30"
MAPPED = (
    "   6: 0000000000000000FFFF00000100A8C0:9C40 0000000000000000FFFF00000200A8C0:7530 01 "
    "00000000:00000007 00:00000000 00000000  1000        0 7004 1 0 20 4 30 10 -1"
)
SIX = (
    "   7: B80D0120000000000000000001000000:9C40 B80D0120000000000000000002000000:7530 01 "
    "00000000:00000000 00:00000000 00000000  1000        0 7005 1 0 20 4 30 10 -1"
)


def one(line: str) -> TcpConnection:
    (row,) = parse([HEAD, line])
    return row


def test_addresses_of_all_families_are_read() -> None:
    assert one(WELL).ends == (("10.213.220.1", 38428), ("10.213.220.11", 22))
    assert one(MAPPED).ends[1] == ("192.168.0.2", 30000)
    assert one(SIX).ends[1] == ("2001:db8::2", 30000)


def test_what_the_kernel_of_a_peer_does_not_acknowledge_is_reported_with_its_rank() -> None:
    rows = list(parse([HEAD, WELL, BLOCKED, CONNECTS, MAPPED]))
    assert unanswered(rows, {"7001": 3, "7003": None, "7004": 3, "7869020": 3}, frozenset()) == [
        StuckConnection(3, "192.168.0.2", 30000, 65536, 5, 40000),
        StuckConnection(None, "192.168.0.2", 30000, 1, 3, 40003),
    ]


def test_a_connection_that_an_ended_process_left_counts_unless_it_is_older_than_the_ranks() -> None:
    """The kernel keeps it for minutes, also over the next runs on this host."""
    rows = list(parse([HEAD, WELL, BLOCKED, LEFT, OPENED]))
    left = StuckConnection(None, "192.168.0.2", 30000, 1025, 2, 40002)
    assert unanswered(rows, {}, frozenset()) == [left]
    assert unanswered(rows, {}, {one(LEFT).ends}) == []


@given(st.lists(st.text()))
def test_any_lines_are_read_without_an_error(lines: list[str]) -> None:
    list(parse(lines))
