from testinfra.host import Host

CURRENT = "/opt/pylaunch/current"


def test_the_environment_can_be_imported_without_a_network(node: Host) -> None:
    node.run_test("unshare --net %s -c 'import six, tabulate'", f"{CURRENT}/bin/python")


def test_other_users_can_run_it_and_cannot_change_it(node: Host) -> None:
    as_nobody = "setpriv --reuid=nobody --regid=nogroup --clear-groups "
    node.run_test(as_nobody + "%s -c 'import six'", f"{CURRENT}/bin/python")
    assert node.run(as_nobody + "touch %s", f"{CURRENT}/x").rc == 1
