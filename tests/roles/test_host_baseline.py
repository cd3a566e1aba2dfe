from testinfra.host import Host

from tests.roles.conftest import NODES, Provisioned


def test_services_get_the_limits_too(node: Host) -> None:
    shown = node.check_output("systemctl show --property=DefaultLimitMEMLOCK --property=DefaultLimitNOFILE --value")
    assert sorted(shown.split()) == ["1048576", "infinity"]


def test_every_member_resolves_to_the_same_everywhere(provisioned: Provisioned) -> None:
    asked = "getent hosts " + " ".join(NODES)
    answers = {
        name: [line.split()[:2] for line in provisioned.host(name).check_output(asked).splitlines()] for name in NODES
    }
    members = [[node.address, node.name] for node in provisioned.lab]
    assert answers == dict.fromkeys(NODES, members)


def test_lines_of_others_in_etc_hosts_stay(node: Host) -> None:
    text = node.file("/etc/hosts").content_string
    assert "127.0.0.1\tlocalhost" in text
    assert "127.0.1.1" not in text


def test_kernel_settings_are_live_where_the_container_allows_it(node: Host) -> None:
    assert node.file("/proc/sys/net/core/somaxconn").content_string.strip() == "8192"


def test_kernel_settings_that_cannot_be_set_are_reported(provisioned: Provisioned) -> None:
    live = provisioned.host("n1").file("/proc/sys/vm/max_map_count").content_string.strip()
    reported = "note: n[1-3]: host_baseline: read-only here, so they stay: "
    assert live == "1048576" or reported in provisioned.first.stderr
