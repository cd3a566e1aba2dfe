"""Contract with Ansible's templating: hosts that agree in what a role reads share what each would get."""

from pathlib import Path

from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.provision.desired import Content, render
from pylaunch.store import content

OURS = Content(content.playbook("site"), content.roles_directory())
HOSTS = 14


def varied(directory: Path) -> Cluster:
    """An inventory whose hosts have variables, addresses, groups and templates of their own."""
    lines = []
    for number in range(HOSTS):
        words = [f"h{number}" if number != 5 else "10.77.0.5"]
        words += [f"ansible_host=10.0.0.{number}"] if number % 6 else []
        words += [f"fabric_address=10.9.0.{number}"] if number % 3 == 0 else []
        words += [f"""host_baseline_aliases='["deep{number}"]'"""] if number % 4 == 0 else []
        words += ["ansible_port=2222"] if number % 7 == 0 else []
        words += [f"host_baseline_nofile=7000{number}"] if number % 5 == 1 else []
        words += ["pylaunch_unprivileged=true"] if number == 10 else []
        words += ["""host_baseline_sysctls='{"vm.max_map_count": "{{ 5 + 6 }}"}'"""] if number == 11 else []
        words += ["gpu_node_driver=570.0"] if number in (2, 3) else []
        words += ["firewall_enabled=true"] if number % 2 else []
        lines.append(" ".join(words))
    odd = [f"h{number}" for number in range(1, HOSTS, 2) if number != 5]
    variables = ["time_sync_local=true", "host_baseline_stack_kib={{ 4096 + groups['cluster'] | length }}"]
    variables.append("ssh_access_authorized_keys=['ssh-ed25519 AAAA {{ inventory_hostname }}']")
    inventory = directory / "cluster.ini"
    inventory.write_text("\n".join(["[cluster]", *lines, "[odd]", *odd, "[odd:vars]", *variables]) + "\n")
    return load_cluster(inventory)


def test_a_host_gets_the_same_state_alone_as_among_others(tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(
        "".join(f"10.0.0.{number},h{number} ssh-ed25519 AAAAC3Nz{number}\n" for number in range(0, HOSTS, 2))
    )
    cluster = varied(tmp_path)
    extra: dict[str, object] = {
        "pylaunch_project_directory": str(tmp_path), "ssh_access_known_hosts_source": str(known),
    }  # fmt: skip
    together = render(OURS, cluster, extra_vars=extra)
    for name in cluster.names:
        alone = render(OURS, cluster.only([name]), extra_vars=extra)
        assert together.hosts[name] == alone.hosts[name], name
    assert len({repr(states) for states in together.hosts.values()}) == len(together.hosts)
