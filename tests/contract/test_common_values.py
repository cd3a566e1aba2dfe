"""Contract with Ansible's templating: what hosts have in common is rendered once, and as for each host alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible._internal._templating._engine import TemplateEngine
from ansible.template import trust_as_template

from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.provision.common_values import Dependence, differing, in_common, templates
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


@pytest.mark.parametrize("family", ["Debian", "RedHat"])
def test_a_host_gets_the_same_state_alone_as_among_others(tmp_path: Path, family: str) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(
        "".join(f"10.0.0.{number},h{number} ssh-ed25519 AAAAC3Nz{number}\n" for number in range(0, HOSTS, 2))
    )
    cluster = varied(tmp_path)
    extra: dict[str, object] = {
        "pylaunch_project_directory": str(tmp_path), "ssh_access_known_hosts_source": str(known),
    }  # fmt: skip
    together = render(OURS, cluster, extra_vars=extra, family=family)
    for name in cluster.names:
        alone = render(OURS, cluster.only([name]), extra_vars=extra, family=family)
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
    assert (most - more) / 8 < 200, "of each further host"


VALUES: dict[str, Any] = {
    "inventory_hostname": "h1", "shared": "5", "own": "7", "hostvars": {}, "members": ["h1", "h2"],
    "of_shared": "{{ shared }}", "of_own": "{{ own }}", "deep": [{"key": "{{ of_own }}"}], "itself": "{{ itself }}",
    "never": "{{ no_such.thing }}",
}  # fmt: skip
OWN = frozenset(("own", "inventory_hostname"))


def trusted(value: Any) -> Any:
    match value:
        case str():
            return trust_as_template(value)
        case dict():
            return {key: trusted(each) for key, each in value.items()}
        case list():
            return [trusted(each) for each in value]
    return value


def dependence(directory: Path, values: Mapping[str, Any] = VALUES) -> Dependence:
    return Dependence(trusted(dict(values)), OWN, [directory])


@pytest.mark.parametrize(
    "template",
    [
        "{{ own }}", "{{ of_own }}", "{{ deep }}", "{{ hostvars[inventory_hostname].x }}", "{{ vars['own'] }}",
        "{{ lookup('vars', 'own') }}", "{{ query('pipe', 'date') }}", "{{ lookup(shared, 'x') }}",
        "{{ [1, 2] | random }}", "{{ [[1]] | map('random') }}", "{{ [1] | map(shared) }}", "{{ [1] | my_filter }}",
        "{% include 'shared.j2' %}", "{{ lookup('template', 'own.j2') }}", "{{ lookup('template', 'none.j2') }}",
        "{{ lookup('template', 'shared.j2', template_vars={'a': 1}) }}", "{{ lookup('template', shared) }}",
        "{{ shared | default(omit) }}", "{{ not closed", "{% for name in members %}{{ name == own }}{% endfor %}",
        "{% set call = lookup %}{{ call('vars', 'own') }}", "{{ now() }}", "{{ itself }}",
        "{{ lookup('file', of_own) }}",
    ],
)  # fmt: skip
def test_a_template_that_may_read_what_differs_depends_on_its_host(tmp_path: Path, template: str) -> None:
    files = {"own.j2": "{{ own }}", "shared.j2": "{{ shared }}"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert dependence(tmp_path).of_template(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ shared }}", "{{ of_shared | int }}", "{{ hostvars['h2'].own }}", "{{ members | map('extract', hostvars) }}",
        "{% for own in members %}{{ own }}{% endfor %}", "{{ lookup('ansible.builtin.template', 'shared.j2') }}",
        "{{ shared is ansible.builtin.match('x') }}", "{{ 'own' }}", "{{ lookup('file', of_shared) }}",
    ],
)  # fmt: skip
def test_a_template_of_what_hosts_share_is_rendered_once(tmp_path: Path, template: str) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "shared.j2").write_text("{{ shared }}")
    assert not dependence(tmp_path).of_template(template)


def test_values_of_different_types_and_texts_that_are_no_templates_differ() -> None:
    template = trust_as_template("{{ x }}")
    first = {"same": [1, {"a": "b"}], "type": 1, "missing": 1, "trust": template, "both": template}
    other = {"same": [1, {"a": "b"}], "type": True, "further": 1, "trust": "{{ x }}", "both": template}
    assert differing([first, other]) == {"type", "missing", "further", "trust"}
    assert differing([first]) == frozenset()


def test_what_hosts_share_is_filled_in_and_the_rest_stays_a_template(tmp_path: Path) -> None:
    values = trusted({**VALUES, "wanted": {"a": "{{ of_shared }}", "b": "{{ of_own }}", "c": "{{ never }}", "d": 4}})
    rendered: list[str] = []

    def render_one(text: str) -> str:
        rendered.append(text)
        return "{{ five }}" if text == "{{ of_shared }}" else text

    found = in_common("wanted", values, Dependence(values, OWN, [tmp_path]), render_one)
    assert found["wanted"] == {"a": "{{ five }}", "b": "{{ of_own }}", "c": "{{ never }}", "d": 4}
    assert list(templates(found["wanted"])) == ["{{ of_own }}", "{{ never }}"], "a result is no template"
    assert "own" not in found
    assert "{{ own }}" not in rendered
