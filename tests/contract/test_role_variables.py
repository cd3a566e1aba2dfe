"""Misspelt and impossible variables of roles are refused before any host is asked; possible ones are not."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.inventory import load_cluster
from pylaunch.provision.desired import Content, render
from pylaunch.store import content

OURS = Content(content.playbook("site"), content.roles_directory())
SERVERS = "expected a list of dictionaries with the keys host (required), options"


def rendered(directory: Path, *lines: str) -> None:
    text = "\n".join(["[cluster]", "n1 ansible_host=10.1.0.1", "n2 ansible_host=10.1.0.2", "[cluster:vars]", *lines])
    (directory / "cluster.ini").write_text(text + "\n")
    render(OURS, load_cluster(directory / "cluster.ini"))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("firewall_enabld=true", "firewall_enabld: unknown variable; did you mean firewall_enabled?"),
        ("firewall_enabled=maybe", "firewall_enabled: expected true or false, got 'maybe'"),
        ("host_baseline_nofile=lots", "host_baseline_nofile: expected an integer, got 'lots'"),
        (
            "time_sync_servers=10.0.0.1",
            f"time_sync_servers: {SERVERS}, got '10.0.0.1'",
        ),
        (
            'time_sync_servers=[{"hots": "a"}]',
            f"time_sync_servers: {SERVERS}, got [{{'hots': 'a'}}]",
        ),
    ],
)
def test_a_wrong_variable_is_named_with_its_hosts(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(UsageError, match="1 error in variables of roles") as refused:
        rendered(tmp_path, line)
    assert refused.value.evidence == (f"n[1-2]: {complaint}",)


def test_all_errors_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 errors in variables of roles"):
        rendered(tmp_path, "firewall_enabled=maybe", "time_sync_serverz=[]")


def test_values_as_users_write_them_and_variables_of_other_roles_are_accepted(tmp_path: Path) -> None:
    rendered(
        tmp_path,
        "host_baseline_nofile=70000",
        'time_sync_servers=[{"host": "10.0.0.1"}, {"host": "b", "options": "iburst prefer"}]',
        "time_sync_step_threshold=2",
        "firewall_enabled=yes",
        'firewall_member_ports=["29500", "ephemeral"]',
        "host_baseline_stack_kib={{ 4 * 2048 }}",
        "firewall_enabled_at_boot=true",
        "time_sync_of_ours=3",
    )


def test_the_defaults_of_every_role_are_possible_values(tmp_path: Path) -> None:
    lines: list[str] = []
    for path in sorted(content.roles_directory().glob("*/defaults/main.yml")):
        lines += path.read_text().splitlines()
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "cluster.yml").write_text("\n".join(line for line in lines if line != "---") + "\n")
    rendered(tmp_path)
