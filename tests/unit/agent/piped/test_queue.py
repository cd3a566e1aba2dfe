"""Places in the queue of a node: one total order, and only conflicting starts wait."""

import os
import socket

from pylaunch.agent.piped.queue import Owners, QueuePlace, blocked, listeners, places
from pylaunch.agent.shared import leases

FIRST = QueuePlace(1_000_000, "aaaa", "", 0b1111, 29500)
SECOND = QueuePlace(2_000_000, "bbbb", "", 0b0011, 0)

TABLE = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 4242 @pylaunch/device/0
0000000000000000: 00000003 00000000 00000000 0001 03 4243 @pylaunch/device/1
0000000000000000: 00000002 00000000 00000000 0002 01 4244 {}
0000000000000000: 00000002 00000000 00010000 0001 01 4245 /run/a path/with spaces
""".format(FIRST.name.replace("\0", "@"))


def test_places_and_leases_are_parsed_from_proc_net_unix() -> None:
    assert places(TABLE) == [FIRST]
    assert listeners(TABLE) == {"\0pylaunch/device/0": "4242", "/run/a path/with spaces": "4245"}


def test_a_name_with_many_devices_fits_into_a_socket_address() -> None:
    assert len(QueuePlace(1 << 55, "f" * 8, "f" * 16, (1 << 64) - 1, 65535).name) <= 108


def test_the_earlier_of_two_conflicting_starts_is_first() -> None:
    assert blocked(SECOND, [FIRST], {}) == [("", "run aaaa, which came first and waits too")]
    assert blocked(FIRST, [SECOND], {}) == []


def test_a_start_without_a_conflict_does_not_wait() -> None:
    assert blocked(QueuePlace(3_000_000, "cccc", "", 0b10000, 29600), [FIRST, SECOND], {}) == []
    assert blocked(QueuePlace(3_000_000, "cccc", "scope", 0b1111, 29600), [FIRST, SECOND], {}) == []
    assert blocked(QueuePlace(3_000_000, "cccc", "scope", 0, 29500), [FIRST, SECOND], {}) != []


def test_the_run_id_orders_starts_of_the_same_time_and_never_both_wait() -> None:
    twin = QueuePlace(FIRST.since, "aaab", "", 0b1111, 0)
    assert blocked(twin, [FIRST], {}) != []
    assert blocked(FIRST, [twin], {}) == []


def test_held_devices_are_listed_in_order() -> None:
    holders = {"port 29500": "run 7f3a", "device 10": "run 7f3a", "device 2": "run 7f3a"}
    assert [what for what, _ in blocked(FIRST, [], holders)] == ["device 2", "device 10", "port 29500"]


def test_a_name_with_an_invalid_run_id_is_no_place() -> None:
    name = QueuePlace(1, "x\x1b[2J", "", 1, 0).name.replace("\0", "@")
    assert places(f"0000000000000000: 00000002 00000000 00000000 0002 01 4244 {name}\n") == []


def test_a_place_is_shown_with_its_user_and_a_forged_line_is_ignored() -> None:
    mine = QueuePlace(4_000_000, "dddd", "a scope of its own", 1, 0)
    real = QueuePlace(1_000_000, f"r{os.getpid()}", mine.scope, 1, 0)
    forged = QueuePlace(0, "ffff", mine.scope, 1, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as place:
        place.bind(real.name)
        found = Owners().of([forged, real])
    user = leases.user_name(os.getuid())
    assert blocked(mine, found, {}) == [("", f"run {real.run} of {user}, which came first and waits too")]
