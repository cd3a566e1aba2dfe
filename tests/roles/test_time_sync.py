from testinfra.host import Host

from pylaunch.errors import ExitCode
from tests.roles.conftest import Provisioned


def test_chronyd_was_really_started_and_only_watches_the_clock_it_may_not_set(
    node: Host, provisioned: Provisioned
) -> None:
    condition = node.check_output("systemctl show --property=ConditionResult --value chrony.service")
    assert condition == "yes"
    (daemon, *_) = node.process.filter(comm="chronyd")
    assert "-x" in daemon.args.split()
    assert "note: n[1-3]: time_sync: clock not disciplined here (no CAP_SYS_TIME)" in provisioned.first.stderr


def _daemon(node: Host) -> str:
    return str(node.check_output("systemctl show --property=MainPID --value chrony.service"))


def test_files_that_a_failed_provision_wrote_take_effect_in_the_next_one(provisioned: Provisioned) -> None:
    inventory, node = str(provisioned.lab.inventory), provisioned.lab["n2"]
    host = provisioned.host("n2")
    before = _daemon(host)
    node.run("sh", "-c", "echo '# other' >>/etc/chrony/conf.d/90-pylaunch.conf")
    node.run("systemctl", "mask", "--runtime", "chrony.service")
    try:
        failed = provisioned.lab.pylaunch("provision", "-i", inventory)
    finally:
        node.run("systemctl", "unmask", "--runtime", "chrony.service")
    assert failed.returncode == ExitCode.PROVISION_FAILED, failed.stderr
    assert "# other" not in node.read("/etc/chrony/conf.d/90-pylaunch.conf")
    assert _daemon(host) == before, "the story is about a daemon that still has its old settings"
    completed = provisioned.lab.pylaunch("provision", "-i", inventory)
    assert completed.ok, completed.stderr
    assert "time_sync: Restart chrony: changed on n2" in completed.stderr
    assert _daemon(host) != before


UNFINISHED = """
import json
path = "/var/lib/pylaunch/manifest.json"
manifest = json.load(open(path))
for role in ("host_baseline", "time_sync", "ssh_access"):
    manifest["roles"][role]["unfinished"] = True
json.dump(manifest, open(path, "w"))
"""


def test_every_role_with_a_daemon_completes_an_interrupted_provision(provisioned: Provisioned) -> None:
    node = provisioned.lab["n3"]
    node.run("/usr/bin/python3", "-c", UNFINISHED)
    completed = provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory))
    assert completed.ok, completed.stderr
    assert completed.stderr.startswith("n3: host_baseline, time_sync, ssh_access\n")
    for task in ("time_sync: Restart chrony", "ssh_access: Reload sshd"):
        assert f"{task}: changed on n3" in completed.stderr
    assert "unfinished" not in node.read("/var/lib/pylaunch/manifest.json")
