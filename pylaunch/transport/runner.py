"""The only importer of ansible_runner: a playbook in, values out.

    PlaybookRun ──► run_playbook ──► Progress …          as it happens
                                 ──► PlaybookResult      failures and changes of tasks, each with its host

Ansible runs in a thread of its own; its event handler only enqueues. The caller's thread takes the events, so that
`on_event` may be slow and Ctrl-C arrives where it is expected. Ansible's settings come from the ansible.cfg the user
would get from the current directory, except for those that pylaunch relies on: they are set in the environment,
which Ansible prefers to any file.
"""

import contextlib
import json
import os
import queue
import re
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from enum import Enum
from pathlib import Path
from typing import Any

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import ProvisionError
from pylaunch.model.cluster import Cluster
from pylaunch.model.text.argv import quoted
from pylaunch.transport import guard, process
from pylaunch.transport.collection import COLLECTION, assemble
from pylaunch.transport.connections import connector_of
from pylaunch.transport.openssh.sharing import SHARED, options

MAX_FORKS = 50
STOP_GRACE_S = 5.0
"""Seconds between SIGINT to ansible-playbook and killing its process group."""

POLL_S = 0.25


@dataclass(frozen=True)
class PlaybookRun:
    """One run of a playbook, on exactly the hosts of `cluster`."""

    playbook: Path
    """In the directory `playbooks/` of the collection, whose roles and modules it can name."""

    cluster: Cluster
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    """Skip tasks with these tags, even those that are tagged `always`, as Ansible's validation of arguments is."""

    extra_vars: Mapping[str, object] = field(default_factory=dict)
    check: bool = False
    """Ansible's check mode: report changes without making them."""

    diff: bool = False
    """Return the lines of files that change."""

    become_password: str | None = field(default=None, repr=False)


class TaskStatus(Enum):
    """State of a task on a host."""

    STARTED = "started"
    OK = "ok"
    CHANGED = "changed"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class Progress:
    """A task that changed its state on one host."""

    host: str
    role: str
    """"" outside roles."""

    task: str
    status: TaskStatus


@dataclass(frozen=True)
class Failure:
    """A task that failed on a host."""

    host: str
    role: str
    task: str
    message: str
    """The task's own output, several lines where it wrote several."""


@dataclass(frozen=True)
class TaskChange:
    """A task that changed something on a host, or would in check mode."""

    host: str
    role: str
    task: str
    diffs: tuple[Mapping[str, Any], ...]
    """Differences as the module returned them; empty without `PlaybookRun.diff`."""


@dataclass(frozen=True)
class PlaybookResult:
    """Result of a playbook. It completed on every host that has no failure here."""

    failures: tuple[Failure, ...]
    changes: tuple[TaskChange, ...] = ()

    @property
    def ok(self) -> bool:
        """No host failed."""
        return not self.failures

    @classmethod
    def joined(cls, results: "Sequence[PlaybookResult]") -> "PlaybookResult":
        """Return the results of runs on different hosts as one."""
        return cls(
            tuple(failure for each in results for failure in each.failures),
            tuple(change for each in results for change in each.changes),
        )


def run_playbook(
    run: PlaybookRun,
    *,
    on_event: Callable[[Progress], None] | None = None,
    unwanted: threading.Event | None = None,
) -> PlaybookResult:
    """Run Ansible to its end. Failed tasks are in the result.

    Raises ProvisionError when Ansible itself fails: a playbook that does not parse, no summary at the end. On
    KeyboardInterrupt, and when `on_event` raises, ansible-playbook ends before the exception propagates; when this
    process is killed, the guard ends it. Another thread ends it by setting `unwanted`; then there is no summary either.
    """
    import ansible_runner  # noqa: PLC0415 -- most verbs run no playbook, and its import takes as long as they do to begin

    stop = _Stop(unwanted or threading.Event())
    events: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
    collected = _Collected()
    with tempfile.TemporaryDirectory(prefix="pylaunch-ansible-") as directory, _guarded(directory):
        private = Path(directory)
        arguments = _arguments(run, private)

        def enqueue(event: dict[str, Any]) -> bool:
            stop.pid = event.get("pid", stop.pid)
            events.put(event)
            return False

        def work() -> None:
            try:
                ansible_runner.run(**arguments, event_handler=enqueue, cancel_callback=stop)
            finally:
                if stop.has_killed:
                    guard.end(private)
                events.put(None)

        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ansible-runner") as pool:
            working = pool.submit(work)
            try:
                while (event := events.get()) is not None:
                    progress = collected.add(event)
                    if progress is not None and on_event is not None:
                        on_event(progress)
            finally:
                stop.unwanted.set()
            working.result()
    return collected.result()


def _guarded(directory: str) -> AbstractContextManager[None]:
    return process.guarded((sys.executable, "-I", "-S", guard.__file__, directory))


class _Stop:
    """Callback of ansible-runner, called every POLL_S: return whether to kill ansible-playbook.

    A signal to the process group misses its workers, which have sessions of their own; SIGINT makes it end them. If it
    does not end in time and is killed, they are left over.
    """

    def __init__(self, unwanted: threading.Event) -> None:
        self.unwanted = unwanted
        self.pid: int | None = None
        self.has_killed = False
        self._deadline: float | None = None

    def __call__(self) -> bool:
        if not self.unwanted.is_set():
            return False
        if self._deadline is None and self.pid is not None:
            self._deadline = time.monotonic() + STOP_GRACE_S
            with contextlib.suppress(ProcessLookupError):  # It has just ended on its own.
                os.kill(self.pid, signal.SIGINT)
        self.has_killed = self._deadline is None or time.monotonic() > self._deadline
        return self.has_killed


class _Collected:
    """Failures, changes and output collected from Ansible's events."""

    def __init__(self) -> None:
        self._failures: list[Failure] = []
        self._changes: list[TaskChange] = []
        self._stats: Mapping[str, Any] | None = None
        self._failed_items: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        """Results of the failed items of a loop, by host and id of the task."""

        self._output: deque[str] = deque(maxlen=15)

    def add(self, event: Mapping[str, Any]) -> Progress | None:
        name, body = event["event"], event.get("event_data", {})
        if name == "playbook_on_stats":
            self._stats = body
            return None
        if name == "runner_item_on_failed":
            self._failed_items.setdefault((body["host"], body["task_uuid"]), []).append(body.get("res", {}))
        if name not in _STATUSES:
            self._output.extend(line for line in event["stdout"].splitlines() if line.strip())
            return None
        result = body.get("res", {})
        status = _STATUSES[name]
        if status is TaskStatus.OK and result.get("changed"):
            status = TaskStatus.CHANGED
        host, role, task = body["host"], body.get("role", "").removeprefix(f"{COLLECTION}."), body["task"]
        if status is TaskStatus.CHANGED:
            self._changes.append(TaskChange(host, role, task, tuple(_diffs(result))))
        if status in (TaskStatus.FAILED, TaskStatus.UNREACHABLE) and not body.get("ignore_errors"):
            items = self._failed_items.get((host, body["task_uuid"]), ())
            self._failures.append(Failure(host, role, task, failure_message(items or [result])))
        return Progress(host, role, task, status)

    def result(self) -> PlaybookResult:
        if self._stats is None:
            raise ProvisionError("Ansible ended without a summary", evidence=[*self._output])
        if not self._stats["processed"]:
            raise ProvisionError("Ansible found no hosts", evidence=[*self._output])
        # A failure that a rescue section handled does not count.
        failed = {*self._stats["failures"], *self._stats["dark"]}
        failures = tuple(each for each in self._failures if each.host in failed)
        return PlaybookResult(failures, tuple(self._changes))


_STATUSES = {
    "runner_on_start": TaskStatus.STARTED,
    "runner_on_ok": TaskStatus.OK,
    "runner_on_skipped": TaskStatus.SKIPPED,
    "runner_on_failed": TaskStatus.FAILED,
    "runner_on_unreachable": TaskStatus.UNREACHABLE,
}


def _diffs(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the differences in the result of a task, each with its path; for a loop, those of each item."""
    for each in (result, *result.get("results", ())):
        asked = each.get("invocation", {}).get("module_args", {})
        paths = (of.get(key) for of in (each, asked) for key in ("dest", "path"))
        path = next((path for path in paths if path), None)
        found = each.get("diff") or ()
        for diff in [found] if isinstance(found, Mapping) else found:
            if isinstance(diff, Mapping) and diff.get("before") != diff.get("after"):
                yield {**diff, "path": path} if path else diff


def failure_message(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the message of a failed task and the last lines of its output; for a loop, those of each failed item."""
    return "\n".join(dict.fromkeys(_item_message(each) for each in results))


def _item_message(result: Mapping[str, Any]) -> str:
    message = str(result.get("msg", "")).strip()
    written = (result.get(key) for key in ("stderr", "module_stderr", "stdout", "module_stdout"))
    outputs = [[line for line in str(text).splitlines() if _is_output(line)] for text in written if text]
    outputs.insert(0, _errors_of_dpkg(str(result.get("stdout", ""))))
    extra = [line for line in next((lines for lines in outputs if lines), []) if line.strip() not in message]
    return "\n".join([*([message] if message else []), *extra[-10:]]) or "the task failed without a message"


def _errors_of_dpkg(stdout: str) -> list[str]:
    """Return the lines in which dpkg names its error: apt-get prints them to stdout, its exit code to stderr."""
    found = re.findall(r"^dpkg: error .*(?:\n .*)*", stdout, re.MULTILINE)
    return [line for each in found for line in each.splitlines()]


def _is_output(line: str) -> bool:
    """Return False for blank lines, and for what ssh prints at the end of a `raw` task, which has a terminal."""
    return bool(line.strip()) and not re.match(r"(Shared c|C)onnection to \S+ closed\.", line.strip())


def _arguments(run: PlaybookRun, private: Path) -> dict[str, Any]:
    """Return the arguments of ansible_runner.run."""
    limit = guard.limit_file(private)
    limit.write_text("".join(f"{name}\n" for name in run.cluster.names))
    words = ["--limit", f"@{limit}", *(["--check"] if run.check else []), *(["--diff"] if run.diff else [])]
    arguments: dict[str, Any] = {
        "private_data_dir": str(private),
        # The working directory of ansible-playbook: relative paths in the user's settings stay valid.
        "project_dir": str(Path.cwd()),
        "playbook": str(run.playbook.absolute()),
        "forks": min(MAX_FORKS, len(run.cluster.hosts)),
        "envvars": environment(run, private),
        "settings": {"pexpect_timeout": POLL_S},
        "quiet": True,
    }
    arguments["inventory"] = [*run.cluster.sources, str(_connections(run.cluster, private))]
    if run.become_password is not None:
        words.append("--ask-become-pass")
        arguments["passwords"] = {r"^BECOME password.*:\s*?$": run.become_password}
    if run.tags:
        arguments["tags"] = ",".join(run.tags)
    if run.skip_tags:
        arguments["skip_tags"] = ",".join(run.skip_tags)
    if run.extra_vars:
        arguments["extravars"] = dict(run.extra_vars)
    return {**arguments, "cmdline": quoted(words)}


def _connections(cluster: Cluster, private: Path) -> Path:
    """Write an inventory that makes Ansible connect to each host as pylaunch does."""
    hosts = {host.name: dict(connector_of(host, cluster.known_hosts).ansible_variables()) for host in cluster.hosts}
    file = private / "connections.json"
    # In another group, or in all itself, these hosts would come first in groups["all"], which templates read.
    file.write_text(json.dumps({"ungrouped": {"hosts": hosts}}))
    return file


def environment(run: PlaybookRun, private: Path) -> dict[str, str]:
    """Return the environment variables of ansible-playbook that override the user's configuration."""
    from ansible import constants  # noqa: PLC0415 -- a tenth of a second, which verbs without Ansible do without

    content = run.playbook.absolute().parent.parent
    if (content / "galaxy.yml").is_file():
        assemble(content, private)
    return {
        # ansible-runner searches ansible-playbook in PATH: the right one is beside this interpreter.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join([str(private), *constants.COLLECTIONS_PATHS]),
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "False",
        "ANSIBLE_FORCE_COLOR": "False",
        "ANSIBLE_GATHERING": "explicit",
        # ansible-runner disables host key checking where this is not set.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_INJECT_FACT_VARS": "False",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_NOCOLOR": "True",
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        "ANSIBLE_SSH_ARGS": quoted((*SHARED, *options(run.cluster.known_hosts))),
        "ANSIBLE_STDOUT_CALLBACK": "default",
    }
