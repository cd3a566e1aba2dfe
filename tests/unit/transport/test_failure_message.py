"""The message of a failed task, from Ansible's result."""

from pylaunch.transport.runner import failure_message


def test_what_ssh_prints_at_the_end_of_a_raw_task_does_not_hide_what_the_task_printed() -> None:
    result = {
        "msg": "non-zero return code",
        "stderr": "Shared connection to 10.0.0.1 closed.\r\n",
        "stdout": "python3 is already the newest version\r\nno interpreter at /usr/bin/python3\r\n",
    }
    assert failure_message([result]).splitlines() == [
        "non-zero return code",
        "python3 is already the newest version",
        "no interpreter at /usr/bin/python3",
    ]


def test_a_task_that_only_wrote_to_stderr_is_quoted() -> None:
    assert (
        failure_message([{"msg": "failed", "stderr": "E: no room\n", "stdout": "Reading…\n"}]) == "failed\nE: no room"
    )


def test_the_error_of_dpkg_is_quoted_which_apt_get_prints_to_stdout() -> None:
    result = {
        "msg": "'/usr/bin/apt-get install chrony' failed: E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
        "stderr": "E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
        "stdout": "Unpacking chrony (4.3-2) ...\ndpkg: error processing archive chrony.deb (--unpack):\n"
        " failed to write (No space left on device)\nErrors were encountered while processing:\n chrony.deb\n",
    }
    assert failure_message([result]).splitlines()[1:] == [
        "dpkg: error processing archive chrony.deb (--unpack):",
        " failed to write (No space left on device)",
    ]
