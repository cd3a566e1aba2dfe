"""Desired state of every host: the roles' data, rendered on the controller by Ansible's own machinery.

Variable precedence, vault, templates and conditions mean what an administrator expects, because it is Ansible that
interprets them: inventory and playbook group_vars and host_vars over role defaults, role vars over those, extra vars
over all. None of what is imported from `ansible` here is a stable interface; `tests/contract/test_ansible_rendering.py`
watches it.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible._internal._templating._engine import TemplateEngine
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecretsContext, get_file_vault_secret
from ansible.plugins.loader import init_plugin_loader, lookup_loader
from ansible.template import Templar
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ProvisionError, UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.provision.role_variables import HostVariables, RoleVariables, complaints
from pylaunch.provision.state import RoleState, parse_state


@dataclass(frozen=True)
class Desired:
    """Desired state: host → the state of each role that applies to it, in the order in which roles run."""

    hosts: Mapping[str, tuple[RoleState, ...]]
    roles: tuple[str, ...]
    """All requested roles of the playbook, also those that do not apply to these hosts."""

    with_own_become: frozenset[str] = frozenset()
    """Hosts for which the inventory or Ansible's settings say how to become root, or that root is not needed."""


@dataclass(frozen=True)
class Content:
    """A playbook and the roles it uses."""

    playbook: Path
    roles: Path


def render(
    content: Content,
    cluster: Cluster,
    *,
    only: Sequence[str] = (),
    extra_vars: Mapping[str, object] | None = None,
) -> Desired:
    """Render the desired state of every host of `cluster`, for all roles or those in `only`.

    Raises UsageError for a role the playbook does not have and for misspelt or impossible variables of roles,
    ProvisionError where Ansible cannot render a variable.
    """
    loader = DataLoader()
    try:
        loader.set_vault_secrets(_start_ansible())
        listed = _listed_roles(loader, content.playbook)
        if unknown := sorted(set(only) - {each.name for each in listed}):
            raise UsageError(
                f"no such role: {', '.join(unknown)}", hint=f"roles: {', '.join(each.name for each in listed)}"
            )
        chosen = [each for each in listed if not only or each.name in only]
        renderer = _Renderer(loader, content, cluster, {**(extra_vars or {})})
        renderer.refuse_bad_variables(cluster.names, [each.name for each in listed])
        with _without_waste():
            hosts = renderer.states(cluster.names, chosen)
    except AnsibleError as error:
        raise ProvisionError(
            "the desired state cannot be rendered", evidence=[line for line in str(error).splitlines() if line][:6]
        ) from error
    return Desired(hosts, tuple(each.name for each in chosen), renderer.with_own_become(cluster.names))


@cache
def _start_ansible() -> list[tuple[str, Any]]:
    """Initialize Ansible as its command line does, once per process; return the vault passwords."""
    secrets = _vault_secrets(DataLoader())
    VaultSecretsContext.initialize(VaultSecretsContext(secrets))
    context.CLIARGS = ImmutableDict(tags=(), skip_tags=())
    init_plugin_loader([])
    return secrets


def _vault_secrets(loader: DataLoader) -> list[tuple[str, Any]]:
    """Return the vault passwords that the user's settings name, as for any playbook; prompts are not supported."""
    sources = [*constants.DEFAULT_VAULT_IDENTITY_LIST, constants.DEFAULT_VAULT_PASSWORD_FILE]
    secrets = []
    for source in filter(None, sources):
        name, _, file = source.rpartition("@")
        if file not in ("prompt", "prompt_ask_vault_pass"):
            identity = name or constants.DEFAULT_VAULT_IDENTITY
            secret = get_file_vault_secret(filename=file, vault_id=identity, loader=loader)
            secret.load()
            secrets.append((identity, secret))
    return secrets


@dataclass(frozen=True)
class _ListedRole:
    name: str
    conditions: tuple[Any, ...]


def _listed_roles(loader: DataLoader, playbook: Path) -> list[_ListedRole]:
    plays = loader.load_from_file(str(playbook), trusted_as_template=True)
    listed = []
    for play in plays:
        for entry in play.get("roles", ()):
            conditions = entry.get("when", [])
            listed.append(
                _ListedRole(entry["role"], tuple(conditions if isinstance(conditions, list) else [conditions]))
            )
    return listed


class _KeptHostVars(HostVars):  # type: ignore[misc]
    """Host variables, computed once per host. Ansible computes them at each access, and each host accesses all."""

    def __init__(self, **sources: Any) -> None:
        super().__init__(**sources)
        self._kept: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._kept:
            self._kept[key] = super().__getitem__(key)
        return self._kept[key]


@contextmanager
def _without_waste() -> Iterator[None]:
    """Make Ansible do once what it does for every host or file; this is most of the cost of rendering.

    It compiles each template once: a compiled template depends on its text, on the options, and on where its includes
    would be looked for. And a file's template sees the host's variables themselves, to which its own are added, and
    not a deep copy of them all: nothing that it may do changes one.
    """
    compile_template = TemplateEngine._compile_template  # noqa: SLF001 -- nothing public lies between two hosts
    lookup: Any = sys.modules[lookup_loader.get("ansible.builtin.template", class_only=True).__module__]
    kept: dict[Any, Any] = {}

    def compiled(engine: Any, template: str, options: Any) -> Any:
        question = (template, options, tuple(engine.environment.loader.searchpath))
        if question not in kept:
            kept[question] = compile_template(engine, template, options)
        return kept[question]

    TemplateEngine._compile_template = compiled  # noqa: SLF001
    lookup.deepcopy = dict
    try:
        yield
    finally:
        TemplateEngine._compile_template = compile_template  # noqa: SLF001
        lookup.deepcopy = deepcopy


_BECOME = frozenset(
    ("pylaunch_unprivileged", "ansible_become", "ansible_become_exe", "ansible_become_method", "ansible_become_pass",
     "ansible_become_password", "ansible_become_user", "ansible_sudo_exe", "ansible_sudo_pass")
)  # fmt: skip


class _Renderer:
    """Renders hosts one after another; reads the inventory and the roles once."""

    def __init__(
        self, loader: DataLoader, content: Content, cluster: Cluster, extra_vars: Mapping[str, object]
    ) -> None:
        self._loader = loader
        self._content = content
        self._extra_vars = extra_vars
        self._role_files: dict[tuple[str, str], dict[str, Any]] = {}
        sources = list(cluster.sources) or ["".join(f"{name}," for name in cluster.names)]
        self._inventory = InventoryManager(loader=loader, sources=sources)
        self._variables = VariableManager(loader=loader, inventory=self._inventory)
        self._hostvars = _KeptHostVars(inventory=self._inventory, variable_manager=self._variables, loader=loader)

    def states(self, hosts: Sequence[str], roles: Sequence[_ListedRole]) -> dict[str, tuple[RoleState, ...]]:
        """Return the state that each of `roles` wants of each host; roles whose condition is not met are omitted."""
        if not hosts:
            return {}
        variables = [self._variables.get_vars(host=self._inventory.get_host(host)) for host in hosts]
        by_host = HostVariables(variables)
        found = [list(self._role_states(role, variables, by_host)) for role in roles]
        return {
            host: tuple(state for state in states if state is not None)
            for host, states in zip(hosts, zip(*found, strict=True), strict=True)
        }

    def with_own_become(self, hosts: Sequence[str]) -> frozenset[str]:
        """Return the hosts of `Desired.with_own_become`."""
        if constants.BECOME_PASSWORD_FILE is not None or constants.DEFAULT_BECOME_METHOD != "sudo":
            return frozenset(hosts)
        own = (self._variables.get_vars(host=self._inventory.get_host(host)) for host in hosts)
        return frozenset(host for host, names in zip(hosts, own, strict=True) if not _BECOME.isdisjoint(names))

    def refuse_bad_variables(self, hosts: Sequence[str], roles: Sequence[str]) -> None:
        """Raise UsageError if the inventory misspells a variable of `roles` or gives it an impossible value."""
        templar = Templar(loader=self._loader)
        plain = {
            host: {
                name: value
                for name, value in self._variables.get_vars(host=self._inventory.get_host(host)).items()
                if name.startswith(tuple(f"{role}_" for role in roles)) and not templar.is_template(value)
            }
            for host in hosts
        }
        if found := complaints([self._known(role) for role in roles], plain):
            defaults = self._content.roles / "ROLE" / "defaults" / "main.yml"
            raise UsageError(
                f"{len(found)} {'error' if len(found) == 1 else 'errors'} in variables of roles",
                evidence=found,
                hint=f"the variables of a role are described in {defaults}",
            )

    def _known(self, role: str) -> RoleVariables:
        path = self._content.roles / role / "meta" / "argument_specs.yml"
        specs = self._loader.load_from_file(str(path)) if path.exists() else {}
        options = specs.get("argument_specs", {}).get("main", {}).get("options", {})
        names = {*options, *self._role_file(role, "defaults"), *self._role_file(role, "vars")}
        return RoleVariables(role, options, frozenset(names))

    def _role_states(
        self, role: _ListedRole, variables: Sequence[Mapping[str, Any]], by_host: HostVariables
    ) -> Iterator[RoleState | None]:
        """Yield the state of `role` on each host. What hosts would render alike is rendered once."""
        wanted, of_role = f"{role.name}_desired", self._role_file(role.name, "vars")
        layers = [self._role_file(role.name, "defaults"), of_role, self._extra_vars]
        directory = self._content.roles / role.name / "templates"
        files = {path.name: path.read_text(encoding="utf-8") for path in directory.glob("*")}
        templar = Templar(loader=self._loader, variables=self._values(role, variables[0]))
        common = {}
        for name in of_role.keys() - {wanted} - self._extra_vars.keys():
            if len(set(by_host.cases([name], files, layers))) == 1:
                with suppress(AnsibleError):  # What cannot be rendered is left to each host, which may not need it.
                    common[name] = templar.template(of_role[name])
        states: dict[object, RoleState | None] = {}
        for own, case in zip(variables, by_host.cases([wanted, *role.conditions], files, layers), strict=True):
            if case not in states:
                states[case] = self._state(role, wanted, {**self._values(role, own), **common})
            yield states[case]

    def _state(self, role: _ListedRole, wanted: str, values: Mapping[str, Any]) -> RoleState | None:
        templar = Templar(loader=self._loader, variables=values)
        if not all(templar.evaluate_conditional(condition) for condition in role.conditions):
            return None
        return parse_state(role.name, templar.template(values[wanted]))

    def _values(self, role: _ListedRole, inventory_vars: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **self._role_file(role.name, "defaults"),
            **inventory_vars,
            **self._role_file(role.name, "vars"),
            **self._extra_vars,
            "hostvars": self._hostvars,
            "role_path": str(self._content.roles / role.name),
            "ansible_search_path": [str(self._content.roles / role.name), str(self._content.playbook.parent)],
        }

    def _role_file(self, role: str, kind: str) -> dict[str, Any]:
        if (role, kind) not in self._role_files:
            path = self._content.roles / role / kind / "main.yml"
            found = self._loader.load_from_file(str(path), trusted_as_template=True) if path.exists() else None
            self._role_files[role, kind] = found or {}
        return self._role_files[role, kind]
