"""Contract with Ansible's templating: hosts that agree in what a role reads share what each would get."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible._internal._templating._engine import TemplateEngine
from ansible.template import trust_as_template

from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.provision.desired import Content, render
from pylaunch.provision.role_variables import HostVariables
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


def test_the_work_of_rendering_grows_with_the_number_of_hosts_and_not_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = [0]
    template = TemplateEngine.template

    def counted(engine: Any, variable: Any, **options: Any) -> Any:
        rendered[0] += 1
        return template(engine, variable, **options)

    monkeypatch.setattr(TemplateEngine, "template", counted)

    def renderings(hosts: int) -> int:
        lines = "".join(f"h{number} ansible_host=10.2.0.{number}\n" for number in range(1, hosts + 1))
        (tmp_path / "cluster.ini").write_text(f"[cluster]\n{lines}")
        cluster = load_cluster(tmp_path / "cluster.ini")
        rendered[0] = 0
        render(OURS, cluster, extra_vars={"pylaunch_project_directory": str(tmp_path)})
        return rendered[0]

    few, more, most = (renderings(hosts) for hosts in (4, 12, 20))
    assert more - few == most - more
    assert (most - more) / 8 < 300, "of each further host"


VALUES: dict[str, Any] = {
    "shared": "5", "of_own": "{{ own }}", "deep": [{"key": "{{ of_own }}"}], "itself": "{{ itself }}", "members": ["a"],
}  # fmt: skip
FILES = {"own.j2": "{{ own }}", "shared.j2": "{{ shared }}"}


def trusted(value: Any) -> Any:
    match value:
        case str():
            return trust_as_template(value)
        case dict():
            return {key: trusted(each) for key, each in value.items()}
        case list():
            return [trusted(each) for each in value]
    return value


def cases(*expressions: object, of_role: Mapping[str, Any] | None = None) -> int:
    """Return how many times three hosts render: two have the same `own`, all have the same `shared`."""
    hosts = [{**trusted(VALUES), "own": own} for own in (1, True, 1)]
    return len(set(HostVariables(hosts).cases(expressions, FILES, [trusted(of_role or {})])))


@pytest.mark.parametrize(
    "expression",
    [
        "shared", "5 + 6", True, "shared | my_filter", "itself", "hostvars['h2'].own", "members | map(hostvars)",
        "lookup('ansible.builtin.template', 'shared.j2')", "shared is ansible.builtin.match('own')", "'own'",
        "lookup('ansible.builtin.file', shared)",
    ],
)  # fmt: skip
def test_what_hosts_share_is_rendered_once(expression: object) -> None:
    assert cases(expression) == 1


@pytest.mark.parametrize(
    "expression", ["own", "of_own", "deep", "shared and own", "lookup('ansible.builtin.template', 'own.j2')", "named"]
)
def test_hosts_with_the_same_values_of_what_is_read_share_a_result(expression: object) -> None:
    assert cases(expression, of_role={"named": "{{ deep }}"}) == 2


@pytest.mark.parametrize(
    "expression",
    [
        "vars['own']", "lookup('vars', 'own')", "query('pipe', 'date')", "lookup(a, 'x')", "not closed}}{{",
        "lookup('ansible.builtin.template', 'other.j2')", "lookup('ansible.builtin.template', a)",
        "lookup('ansible.builtin.template', 'own.j2', template_vars={'a': 1})", "1 }}{% include 'own.j2' %}{{ 2",
        "1 }}{% set call = lookup %}{{ call('vars', 'own')", "shared +",
    ],
)  # fmt: skip
def test_what_may_read_more_than_it_names_is_rendered_for_each_host(expression: object) -> None:
    assert cases(expression) == 3


def test_equal_texts_of_which_one_is_no_template_differ() -> None:
    hosts = [{"x": trust_as_template("{{ y }}")}, {"x": "{{ y }}"}, {}]
    assert len(set(HostVariables(hosts).cases(["x"], {}, []))) == 3
