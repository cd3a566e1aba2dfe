"""Contract with Ansible's in-process machinery: it renders the same values as ansible-playbook."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch.errors import ProvisionError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster, Host
from pylaunch.provision.convergence import site_request
from pylaunch.provision.desired import Content, render
from pylaunch.provision.state import DesiredLink, RoleState, parse_state
from pylaunch.store import content
from pylaunch.transport.runner import PlaybookRun, run_playbook

ROLES = (
    "host_baseline", "firewall", "time_sync", "ssh_access", "gpu_node", "python_env", "nccl_env",
)  # fmt: skip
"""In the order of the site playbook."""

OURS = Content(content.playbook("site"), content.roles_directory())

INVENTORY = """
[cluster]
n1 ansible_host=10.1.0.1
n2 ansible_host=10.1.0.2 fabric_address=10.9.0.2 host_baseline_aliases='["deep"]'
n3 ansible_host=gpu3.example.org

[cluster:vars]
host_baseline_nofile=70000

[other]
x1 ansible_host=10.1.0.9
"""


def inventory(directory: Path, text: str = INVENTORY) -> Cluster:
    (directory / "cluster.ini").write_text(text)
    return load_cluster(directory / "cluster.ini")


def state_of(role: str, states: tuple[RoleState, ...]) -> RoleState:
    return next(state for state in states if state.role == role)


def test_names_come_from_the_inventory_alone_also_for_one_host_of_it(tmp_path: Path) -> None:
    cluster = inventory(tmp_path).only(["n1"])
    (block,) = state_of("host_baseline", render(OURS, cluster).hosts["n1"]).blocks
    assert block.content.splitlines() == ["10.1.0.1 n1 @hostname@", "10.9.0.2 n2 deep"]


def test_a_host_outside_the_cluster_still_finds_itself(tmp_path: Path) -> None:
    inventory(tmp_path)
    everywhere = Cluster((Host("x1", "10.1.0.9"),), (str(tmp_path / "cluster.ini"),))
    (block,) = state_of("host_baseline", render(OURS, everywhere).hosts["x1"]).blocks
    assert block.content.splitlines() == ["10.1.0.1 n1", "10.9.0.2 n2 deep", "10.1.0.9 @hostname@"]


def test_a_host_known_to_dns_alone_keeps_its_hosts_file(tmp_path: Path) -> None:
    state = state_of("host_baseline", render(OURS, inventory(tmp_path)).hosts["n3"])
    assert (state.blocks, state.absent_lines) == ((), ())


def test_the_firewall_is_off_until_switched_on_and_then_knows_every_address_of_the_members(tmp_path: Path) -> None:
    off = state_of("firewall", render(OURS, inventory(tmp_path)).hosts["n1"])
    assert (off.files, off.reports) == ((), ())
    text = INVENTORY.replace("n3 ansible_host=gpu3.example.org", "10.1.0.3").replace(
        "[other]", "firewall_enabled=true\n[other]"
    )
    on = state_of("firewall", render(OURS, inventory(tmp_path, text).only(["n1"])).hosts["n1"])
    (wanted,) = (json.loads(file.content) for file in on.files if file.path.endswith("wanted.json"))
    assert wanted == {
        "members": ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.9.0.2"],
        "member_ports": ["29400-29599", "ephemeral"],
        "udp_ports": [],
        "ssh_ports": [22],
    }
    (rules,) = (file.content for file in on.files if file.path.endswith("rules.nft"))
    assert rules.index("tcp dport { 22 } accept") < rules.index("@ephemeral@ goto members_only")


def test_the_member_that_serves_time_is_open_to_those_that_ask_and_no_other_is(tmp_path: Path) -> None:
    variables: dict[str, object] = {"firewall_enabled": True, "time_sync_local": True, "firewall_members": ["n2", "n1"]}
    hosts = render(OURS, inventory(tmp_path), only=["firewall"], extra_vars=variables)
    wanted = {
        host: json.loads(file.content)["udp_ports"]
        for host in ("n1", "n2")
        for file in state_of("firewall", hosts.hosts[host]).files
        if file.path.endswith("wanted.json")
    }
    assert wanted == {"n1": [], "n2": [123]}


def test_group_variables_and_extra_variables_rank_as_in_ansible(tmp_path: Path) -> None:
    cluster = inventory(tmp_path)
    assert state_of("host_baseline", render(OURS, cluster).hosts["n1"]).limits["nofile"] == "70000"
    extra = render(OURS, cluster, extra_vars={"host_baseline_nofile": 5})
    assert state_of("host_baseline", extra.hosts["n1"]).limits["nofile"] == "5"


def test_a_host_without_root_gets_only_the_environment(tmp_path: Path) -> None:
    (tmp_path / "cluster.ini").write_text("[cluster]\nn1 pylaunch_unprivileged=true\n")
    desired = render(OURS, Cluster((Host("n1", "10.1.0.1"),), (str(tmp_path / "cluster.ini"),)))
    assert [state.role for state in desired.hosts["n1"]] == ["python_env"]
    assert desired.roles == ROLES


def test_no_password_is_needed_where_the_inventory_says_how_to_become_root_or_that_nobody_does(tmp_path: Path) -> None:
    text = "[cluster]\nn1 pylaunch_unprivileged=true\nn2 ansible_become_method=su\nn3\nn4 ansible_become_password=x\n"
    assert render(OURS, inventory(tmp_path, text)).with_own_become == {"n1", "n2", "n4"}


def test_known_hosts_are_the_trusted_keys_under_all_names_of_a_member_and_the_others_are_named(tmp_path: Path) -> None:
    text = "[cluster]\nn1 ansible_host=10.1.0.1\nn2 ansible_host=10.1.0.2 ansible_port=2222\nn3 ansible_host=10.1.0.3\n"
    cluster = inventory(tmp_path, text)
    (tmp_path / ".pylaunch").mkdir()
    trusted = """\
# ours
10.1.0.1 ssh-ed25519 AAA1 root@n1
old,10.1.0.1,older  ssh-rsa\tAAA2
10.1.0.2 ssh-ed25519 OF-PORT-22
[10.1.0.2]:2222 ssh-ed25519 AAA3
@revoked 10.1.0.1 ssh-ed25519 REVOKED
#10.1.0.1 ssh-ed25519 COMMENT
110.1.0.1 ssh-ed25519 LONGER
10.1.0.11 ssh-ed25519 LONGER
10x1.0.1 ssh-ed25519 NO-DOT
"""
    (tmp_path / ".pylaunch" / "known_hosts").write_text(trusted)
    state = state_of("ssh_access", render(OURS, cluster).hosts["n1"])
    (block,) = state.blocks
    assert block.content.splitlines() == [
        "n1,10.1.0.1 ssh-ed25519 AAA1",
        "n1,10.1.0.1 ssh-rsa AAA2",
        "[n2]:2222,[10.1.0.2]:2222 ssh-ed25519 AAA3",
    ]
    assert state.remarks == ("host key unknown: n3 (pylaunch trust)",)


def test_an_environment_next_to_the_inventory_is_wanted_once_there_is_one(tmp_path: Path) -> None:
    cluster = inventory(tmp_path)
    assert state_of("python_env", render(OURS, cluster).hosts["n1"]).links == ()
    directory = tmp_path / ".pylaunch" / "environment"
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_text(json.dumps({"id": "abc"}))
    links = state_of("python_env", render(OURS, cluster).hosts["n1"]).links
    assert links == (DesiredLink("/opt/pylaunch/current", "envs/abc"),)


def test_the_environment_that_the_project_names_is_wanted_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pylaunch.toml").write_text('[env]\nname = "vision"\n')
    directory = tmp_path / ".pylaunch" / "environments" / "vision" / "environment"
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_text(json.dumps({"id": "abc"}))
    request = site_request(inventory(tmp_path))
    assert request.cluster["n1"].rank_python == "/opt/pylaunch/named/vision/bin/python"
    state = state_of("python_env", render(OURS, request.cluster, extra_vars=request.extra_vars).hosts["n1"])
    assert state.links == (DesiredLink("/opt/pylaunch/named/vision", "../envs/abc"),)
    assert [each.path for each in state.environments] == ["/opt/pylaunch/envs/abc"]


def test_only_some_roles_can_be_asked_for_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    cluster = inventory(tmp_path)
    assert [state.role for state in render(OURS, cluster, only=["time_sync"]).hosts["n1"]] == ["time_sync"]
    with pytest.raises(UsageError, match="no such role: tyme") as caught:
        render(OURS, cluster, only=["tyme"])
    assert caught.value.hint == "roles: host_baseline, firewall, time_sync, ssh_access, gpu_node, python_env, nccl_env"


def test_a_variable_that_cannot_be_rendered_is_an_error_that_names_it(tmp_path: Path) -> None:
    text = "[cluster]\nn1 ansible_host=10.1.0.1\n[cluster:vars]\nhost_baseline_nofile={{ nowhere }}\n"
    with pytest.raises(ProvisionError) as caught:
        render(OURS, inventory(tmp_path, text))
    assert "nowhere" in "\n".join(caught.value.evidence)


def test_a_vaulted_variable_is_opened_with_the_password_of_the_users_settings(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("[defaults]\nvault_password_file = password\n")
    (tmp_path / "password").write_text("secret\n")
    words = [sys.executable, "-m", "ansible", "vault", "encrypt_string", "77777", "--name", "host_baseline_nofile"]
    vaulted = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "cluster.yml").write_bytes(vaulted.stdout)
    (tmp_path / "cluster.ini").write_text("[cluster]\nn1 ansible_host=10.1.0.1\n")
    # Ansible reads its settings once in a process, from the working directory at that moment.
    program = """
from pylaunch.model.cluster import Cluster, Host
from pylaunch.provision.desired import Content, render
from pylaunch.store import content
cluster = Cluster((Host("n1", "10.1.0.1"),), ("cluster.ini",))
desired = render(Content(content.playbook("site"), content.roles_directory()), cluster)
print(desired.hosts["n1"][0].limits["nofile"])
"""
    rendered = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    assert rendered.stdout.strip() == b"77777"


def test_ansible_playbook_renders_the_same(tmp_path: Path) -> None:
    cluster = inventory(tmp_path)
    site = tmp_path / "site"
    for name in ROLES:
        tasks = site / "roles" / name / "tasks" / "main.yml"
        tasks.parent.mkdir(parents=True)
        tasks.write_text(json.dumps([{"name": name, "ansible.builtin.debug": {"var": f"{name}_desired"}}]))
        for part in ("defaults", "vars", "templates"):
            (site / "roles" / name / part).symlink_to(content.roles_directory() / name / part)
    playbook = site / "playbooks" / "show.yml"
    playbook.parent.mkdir()
    playbook.write_text(json.dumps([{"hosts": "cluster", "gather_facts": False, "roles": list(ROLES)}]))
    result = run_playbook(PlaybookRun(playbook, cluster))
    desired = render(OURS, cluster)
    assert result.ok, result.failures
    for host in cluster.names:
        for name in ROLES:
            shown = result.returned[host][name][f"{name}_desired"]
            assert parse_state(name, shown) == state_of(name, desired.hosts[host])
