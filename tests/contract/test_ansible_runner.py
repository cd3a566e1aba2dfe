"""Contract with ansible-runner and ansible-playbook, on this machine alone."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pylaunch.errors import ProvisionError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.transport import runner
from pylaunch.transport.runner import (
    PlaybookResult,
    PlaybookRun,
    Progress,
    TaskStatus,
    environment,
    run_playbook,
)
from tests.files import content_below
from tests.waiting import wait_until

HERE = Cluster((Host("here", "127.0.0.1", Connection.LOCAL),))


def written(directory: Path, *tasks: str, more: str = "") -> Path:
    """A playbook of tasks, each of them a line of YAML."""
    playbook = directory / "playbooks" / "test.yml"
    playbook.parent.mkdir(exist_ok=True)
    playbook.write_text(f"- hosts: all\n  gather_facts: false\n  tasks: [{', '.join(tasks)}]\n{more}")
    return playbook


def said(directory: Path, text: str) -> str:
    """A task that writes `text` to a file."""
    return f'{{name: Say, ansible.builtin.copy: {{content: "{text}", dest: "{directory}/said"}}}}'


def run(directory: Path, *tasks: str, **options: object) -> PlaybookResult:
    return run_playbook(PlaybookRun(written(directory, *tasks), HERE, **options))  # type: ignore[arg-type]


def test_what_tasks_did_and_changed_is_in_the_answer(tmp_path: Path) -> None:
    seen: list[Progress] = []
    playbook = written(
        tmp_path,
        said(tmp_path, "{{ word }}"),
        '{name: Skip, ansible.builtin.command: "false", when: false}',
    )
    result = run_playbook(PlaybookRun(playbook, HERE, extra_vars={"word": "a b; $c"}), on_event=seen.append)
    assert result.ok
    assert [change.task for change in result.changes] == ["Say"]
    assert (tmp_path / "said").read_text() == "a b; $c"
    assert [(step.task, step.status) for step in seen] == [
        ("Say", TaskStatus.STARTED),
        ("Say", TaskStatus.CHANGED),
        ("Skip", TaskStatus.STARTED),
        ("Skip", TaskStatus.SKIPPED),
    ]


@pytest.mark.parametrize("line", ["[jump]\nx\n[gpu]\nhere\ny\n", "x\nhere\ny\n"])
def test_a_run_on_some_hosts_keeps_the_order_and_the_groups_of_the_inventory(tmp_path: Path, line: str) -> None:
    (tmp_path / "cluster.ini").write_text(line)
    cluster = Cluster(HERE.hosts, sources=(str(tmp_path / "cluster.ini"),))
    words = "{{ groups['all'] | join(' ') }}; {{ group_names | join(' ') }}"
    assert run_playbook(PlaybookRun(written(tmp_path, said(tmp_path, words)), cluster)).ok
    assert (tmp_path / "said").read_text() == f"x here y; {'gpu' if 'gpu' in line else 'ungrouped'}"


def test_a_failed_task_gives_its_own_words(tmp_path: Path) -> None:
    breaks = "sh -c 'echo unseen; echo no such widget >&2; exit 3'"
    result = run(tmp_path, f'{{name: Break, ansible.builtin.command: "{breaks}"}}')
    (failure,) = result.failures
    assert (failure.host, failure.task) == ("here", "Break")
    what, output = failure.message.splitlines()
    assert "non-zero return code" in what
    assert output == "no such widget"


def test_each_failed_item_of_a_loop_gives_its_own_words(tmp_path: Path) -> None:
    breaks = "sh -c 'echo {{ item }} >&2; test {{ item }} = y2'"
    result = run(tmp_path, f'{{name: Break, ansible.builtin.command: "{breaks}", loop: [x1, y2, z3]}}')
    (failure,) = result.failures
    assert failure.message.splitlines()[1::2] == ["x1", "z3"]


def test_failures_that_are_ignored_or_rescued_are_none(tmp_path: Path) -> None:
    ignored = '{name: Ignored, ansible.builtin.command: "false", ignore_errors: true}'
    failed, saved = (f'{{name: {word}, ansible.builtin.command: "{word}"}}' for word in ("false", "true"))
    assert run(tmp_path, ignored, f"{{block: [{failed}], rescue: [{saved}]}}").ok


def test_a_tag_to_skip_skips_the_validation_of_a_roles_arguments_and_tags_to_run_do_not(tmp_path: Path) -> None:
    for role in ("one", "other"):
        for file, text in (
            ("meta/argument_specs.yml", "argument_specs: {main: {options: {}}}\n"),
            ("tasks/main.yml", f"- {{name: Work of {role}, ansible.builtin.assert: {{that: true}}}}\n"),
        ):
            (tmp_path / "playbooks/roles" / role / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "playbooks/roles" / role / file).write_text(text)
    playbook = written(tmp_path, more="  roles: [{role: one, tags: [one]}, {role: other, tags: [other]}]\n")

    def ran(**options: tuple[str, ...]) -> list[str]:
        seen: list[Progress] = []
        assert run_playbook(PlaybookRun(playbook, HERE, **options), on_event=seen.append).ok  # type: ignore[arg-type]
        return [step.role for step in seen if step.status is TaskStatus.OK]

    assert ran(tags=("one",)) == ["one", "one", "other"]
    assert ran(tags=("one",), skip_tags=("other",)) == ["one", "one"]


def test_check_mode_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    result = run(tmp_path, f"{{ansible.builtin.copy: {{content: x, dest: {target}, mode: '0600'}}}}", check=True)
    assert len(result.changes) == 1
    assert not target.exists()


def test_a_playbook_that_does_not_parse_is_an_error_with_ansibles_words(tmp_path: Path) -> None:
    with pytest.raises(ProvisionError) as caught:
        run(tmp_path, "{name: Bad, no_such_module: 1}")
    assert "no_such_module" in "\n".join(caught.value.evidence)


@pytest.mark.parametrize("grace_s", [runner.STOP_GRACE_S, -1.0], ids=["handles SIGINT", "is killed before it can"])
def test_an_interrupt_leaves_no_ansible_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace_s: float) -> None:
    monkeypatch.setattr(runner, "STOP_GRACE_S", grace_s)
    pid_file, timers = tmp_path / "pid", []

    def interrupt_once_it_runs(step: Progress) -> None:
        if step.task == "Wait":
            timers.append(threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)))
            timers[-1].start()

    playbook = written(
        tmp_path,
        f"{{name: Ansible's process, ansible.builtin.command: \"sh -c 'echo $PPID > {pid_file}'\"}}",
        "{name: Wait, ansible.builtin.pause: {seconds: 600}}",
    )
    with pytest.raises(KeyboardInterrupt):
        run_playbook(PlaybookRun(playbook, HERE), on_event=interrupt_once_it_runs)
    assert timers
    wait_until(lambda: not running(str(playbook)), "the end of Ansible")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_killed_pylaunch_leaves_no_ansible_and_no_password_behind(tmp_path: Path, number: signal.Signals) -> None:
    marker = f"{os.getpid()}{number:02d}"
    playbook = written(tmp_path, f"{{name: Wait, ansible.builtin.command: sleep 601.{marker}}}")
    script = tmp_path / "controller.py"
    script.write_text(CONTROLLER)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    argv = (sys.executable, str(script), str(playbook))
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment, text=True) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == "Wait\n"
        wait_until(lambda: running(f"601.{marker}"), "the task")
        assert running(str(playbook))
        assert any(b"secret" in text for file, text in content_below(temporary).items() if file.name == "passwords")
        controller.send_signal(number)
    wait_until(lambda: not running(str(playbook)) and not running(f"601.{marker}"), "the end of Ansible")
    wait_until(lambda: not list(temporary.glob("pylaunch-ansible-*")), "the removal of the passwords")


CONTROLLER = """\
import signal
import sys
from pathlib import Path
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.transport.runner import PlaybookRun, run_playbook

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup lets its children ignore it.
here = Cluster((Host("here", "127.0.0.1", Connection.LOCAL),))
run = PlaybookRun(Path(sys.argv[1]), here, become_password="secret")
run_playbook(run, on_event=lambda step: print(step.task, flush=True))
"""


def running(word: str) -> bool:
    """Return whether a process other than the controller has `word` in its command line."""
    lines = [read_or_nothing(entry) for entry in Path("/proc").glob("[0-9]*/cmdline")]
    return any(word.encode() in line for line in lines if b"controller.py" not in line)


def read_or_nothing(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_users_own_settings_stay_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ansible.cfg").write_text("[defaults]\nvault_password_file = password\n")
    (tmp_path / "password").write_text("secret\n")
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path, said(tmp_path, "{{ lookup('config', 'DEFAULT_VAULT_PASSWORD_FILE') }}")).ok
    assert (tmp_path / "said").read_text() == str(tmp_path / "password")


def test_host_keys_are_checked_and_connections_are_shared_with_ours(tmp_path: Path) -> None:
    run = PlaybookRun(Path("/x/playbooks/site.yml"), Cluster((), known_hosts="/a b/known_hosts"))
    settings = environment(run, tmp_path)
    assert settings["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert settings["ANSIBLE_COLLECTIONS_PATH"].startswith(f"{tmp_path}:"), "before those of the user"
    assert "StrictHostKeyChecking=yes" in settings["ANSIBLE_SSH_ARGS"]
    assert "ControlPersist=120" in settings["ANSIBLE_SSH_ARGS"]
