"""Which variables and files are inputs of a role, and which hosts a change of them concerns."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.provision.inputs import _files, wanted_of
from pylaunch.inventory.cluster import InventoryGroup, Listing
from pylaunch.transport.collection import shared_files

SITE = """
- hosts: all
  roles:
    - role: alone
      when: not (pylaunch_unprivileged | default(false) | bool)
    - role: members
"""


@pytest.fixture
def content(tmp_path: Path) -> Path:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "site.yml").write_text(SITE)
    texts = {
        "alone": "alone_size: 1\nalone_other: '{{ site_size }}'\n",
        "members": "members_list: \"{{ groups['all'] }}\"\n",
    }
    for role, text in texts.items():
        (tmp_path / "roles" / role / "defaults").mkdir(parents=True)
        (tmp_path / "roles" / role / "defaults" / "main.yml").write_text(text)
    return tmp_path


def digests(content: Path, **hosts: dict[str, object]) -> dict[str, dict[str, str]]:
    listing = Listing({"all": InventoryGroup(tuple(hosts))}, hosts)
    wanted = wanted_of(content, listing, [name for name in ("n1", "n2") if name in hosts])
    return {host: dict(entries) for host, entries in wanted.hosts.items()}


def changed(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> set[tuple[str, str]]:
    return {(host, role) for host in before for role in before[host] if before[host][role] != after[host][role]}


def test_the_same_inventory_has_the_same_digests(content: Path) -> None:
    assert digests(content, n1={"alone_size": 2}, n2={}) == digests(content, n1={"alone_size": 2}, n2={})


def test_a_variable_concerns_its_host_and_the_roles_that_name_it_or_a_variable_that_does(content: Path) -> None:
    before = digests(content, n1={"alone_other": "{{ mine }}", "mine": 1}, n2={})
    after = digests(content, n1={"alone_other": "{{ mine }}", "mine": 2}, n2={})
    assert changed(before, after) == {("n1", "alone")}
    other = digests(content, n1={"alone_other": "{{ mine }}", "mine": 1, "ansible_password": "x"}, n2={})
    assert changed(before, other) == set()


def test_a_role_that_names_the_members_depends_on_all_hosts(content: Path) -> None:
    before = digests(content, n1={}, n2={})
    after = digests(content, n1={}, n2={}, n3={})
    assert changed(before, after) == {("n1", "members"), ("n2", "members")}


def test_a_changed_file_of_a_role_changes_its_digest_and_that_of_no_other(content: Path) -> None:
    before = digests(content, n1={})
    role = content / "roles" / "alone"
    (role / "README.md").write_text("no input")
    (role.parent / "new").mkdir()
    _files.cache_clear()  # Of another process.
    assert changed(before, digests(content, n1={})) == set()
    (role / "tasks.yml").write_text("an input")
    _files.cache_clear()
    assert changed(before, digests(content, n1={})) == {("n1", "alone")}


def test_a_file_that_modules_share_with_the_agent_is_an_input_of_every_role(
    content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digests(content, n1={})
    for shared in shared_files():
        other = content / shared.name
        other.write_text(shared.read_text() + "# of the next release\n")
        with monkeypatch.context() as patched:
            files = tuple(other if each == shared else each for each in shared_files())
            patched.setattr("pylaunch.features.provision.inputs.shared_files", lambda files=files: files)
            assert changed(before, digests(content, n1={})) == {("n1", "alone"), ("n1", "members")}, shared


def test_a_value_that_its_text_does_not_determine_is_new_in_each_process(
    content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: dict[str, object] = {"alone_size": "{{ lookup('ansible.builtin.file', '/etc/size') }}"}
    before = digests(content, n1=own)
    assert digests(content, n1=own) == before
    monkeypatch.setattr("pylaunch.features.provision.inputs._per_process", lambda: "another process")
    assert changed(before, digests(content, n1=own)) == {("n1", "alone")}


def test_a_host_without_root_gets_only_roles_that_do_without(content: Path) -> None:
    assert set(digests(content, n1={"pylaunch_unprivileged": "yes"})["n1"]) == {"members"}
    with pytest.raises(UsageError, match="expected true or false"):
        digests(content, n1={"pylaunch_unprivileged": "{{ maybe }}"})


def test_a_misspelt_variable_of_a_role_is_refused_and_a_variable_of_others_is_not(content: Path) -> None:
    digests(content, n1={"alone_team": 1, "alonesize": 2})
    with pytest.raises(UsageError, match="1 error in variables of roles") as refused:
        digests(content, n1={"alone_sizee": 1}, n2={"alone_sizee": 1})
    assert refused.value.evidence == ("n[1-2]: alone_sizee: unknown variable; did you mean alone_size?",)


def test_a_role_that_the_playbook_does_not_have_is_refused(content: Path) -> None:
    listing = Listing({"all": InventoryGroup(("n1",))}, {"n1": {}})
    assert wanted_of(content, listing, ["n1"], only=["members"]).roles == ("members",)
    with pytest.raises(UsageError, match="no such role: other") as refused:
        wanted_of(content, listing, ["n1"], only=["other"])
    assert refused.value.hint == "roles: alone, members"
