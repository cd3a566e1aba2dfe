import pytest

from pylaunch.errors import ExitCode
from pylaunch.features.provision.errors import provision_error
from pylaunch.features.provision.manifest import Change
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import Unreachable, unreachable_error
from pylaunch.transport.runner import Failure

CLUSTER = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(1, 6)))


def failure(host: str, message: str) -> Failure:
    return Failure(host, "time_sync", "Install packages", message)


def test_equal_messages_of_hosts_are_reported_once_in_the_tasks_own_words() -> None:
    error = provision_error(CLUSTER, [failure("n1", "No package\nE: chrony"), failure("n2", "No package\nE: chrony")])
    assert error.exit_code is ExitCode.PROVISION_FAILED
    assert error.message == "2 of 5 hosts could not be provisioned: n[1-2]"
    assert error.evidence == ("n[1-2]  time_sync: Install packages: No package", "    E: chrony")
    assert error.hint == "after mending that: pylaunch provision --limit n[1-2]"


@pytest.mark.parametrize(
    ("message", "hint"),
    [("Task failed: Missing sudo password",
      "repeat the command with -K (--ask-become-pass): sudo wants the password on n1"),
     ("/opt/pylaunch: Permission denied",
      "name a directory of the user in the inventory, pylaunch_env_root=/home/USER/envs"),
     ("uv pip failed: error: Failed to fetch: `http://10.0.0.9/simple/six/`",
      "name an index or a directory of wheels that n1 can reach: pylaunch help air-gapped"),
     ("/bin/sh: 1: sudo: not found", "install sudo on n1, or connect as root: ansible_user=root"),
     ("a run uses the environment /opt/pylaunch/envs/ab",
      "stop it and repeat the command; who uses each host: pylaunch gpus --limit n1"),
     ("no interpreter at /usr/bin/python3, although package python3 is installed: it was moved or removed",
      ("on n1: apt-get install --reinstall python3-minimal; or name another interpreter in the inventory:"
       " ansible_python_interpreter=")),
     ("E: Could not get lock /var/lib/apt/lists/lock. It is held by process 296 (apt-get)",
      "wait until that process has ended, then: pylaunch provision --limit n1")],
)  # fmt: skip
def test_a_failure_is_answered_with_what_mends_it(message: str, hint: str) -> None:
    assert provision_error(CLUSTER, [failure("n2", "ok"), failure("n1", f"Task failed\n{message}")]).hint == hint


def test_unreachable_hosts_are_all_named_with_their_reasons_each_reported_once() -> None:
    silent = Unreachable("no end after 60 s")
    error = unreachable_error({"n1": silent, "n2": Unreachable("refused", "start sshd"), "n3": silent}, CLUSTER)
    assert error.exit_code is ExitCode.CLUSTER_NOT_READY
    assert error.message == "3 of 5 hosts cannot be reached: n[1-3]"
    assert error.evidence == ("n[1,3]  no end after 60 s", "n2  refused")
    assert error.hint == "start sshd"


def test_a_host_out_of_reach_is_named_although_another_one_failed() -> None:
    silent = {"n2": Unreachable("no route", "check that n2 is up")}
    error = provision_error(CLUSTER, [failure("n3", "No space left on device")], {}, silent)
    assert error.exit_code is ExitCode.PROVISION_FAILED
    assert error.message == "1 of 5 hosts could not be provisioned: n3; n2 cannot be reached"
    assert error.evidence == ("n3  time_sync: Install packages: No space left on device", "n2  no route")
    assert error.hint == "free space on n3, then: pylaunch provision --limit n3\n      check that n2 is up"


def test_hosts_that_differ_only_in_their_address_share_a_line() -> None:
    silent = {
        each.name: Unreachable(f"ssh {each.address}: no answer", f"look at {each.name}") for each in CLUSTER.hosts
    }
    error = unreachable_error(silent, CLUSTER)
    assert error.evidence == ("n[1-5]  ssh 10.0.0.[1-5]: no answer",)
    assert error.hint == "look at n[1-5]"


def test_a_difference_after_a_successful_run_is_an_error() -> None:
    change = Change("time_sync", "chrony.service", "is enabled and failed")
    error = provision_error(CLUSTER, (), {"n1": [change], "n2": [change]})
    assert error.message == "still not as it should be after provisioning: n[1-2]"
    assert error.evidence == ("n[1-2]  time_sync: chrony.service is enabled and failed",)


def test_the_variable_to_correct_is_named_for_a_host_still_without_an_interpreter() -> None:
    remaining = {"n1": [Change("", "python", "no interpreter at /opt/python")]}
    hint = "correct pylaunch_agent_python or ansible_python_interpreter of n1 in the inventory"
    assert provision_error(CLUSTER, (), remaining).hint == hint


def test_a_rollback_that_failed_is_completed_without_the_flag_that_would_undo_it() -> None:
    error = provision_error(CLUSTER, [failure("n1", "Missing sudo password")], rolled_back=True)
    assert error.hint is not None
    assert error.hint.endswith(
        "\n      omit --rollback then: the environment is rolled back, and --rollback would undo that"
    )
