from tests.roles.conftest import Provisioned


def test_a_host_without_nvidia_devices_is_reported_as_not_applicable(provisioned: Provisioned) -> None:
    assert "note: n[1-3]: gpu_node: not applicable: no NVIDIA device" in provisioned.first.stderr


def test_packages_that_are_installed_are_held_and_the_others_are_no_matter(provisioned: Provisioned) -> None:
    extra = ("-i", str(provisioned.lab.inventory), "--roles", "gpu_node")
    variables = provisioned.lab.inventory.parent / "group_vars"
    variables.mkdir()
    (variables / "all.yml").write_text("gpu_node_hold_packages: [procps, nvidia-fabricmanager-570]\n")
    done = provisioned.lab.pylaunch("provision", *extra)
    assert "n[1-3]: gpu_node 1 changed; ok" in done.stderr
    assert provisioned.lab["n1"].run("apt-mark", "showhold").stdout == "procps\n"
    assert provisioned.lab.pylaunch("provision", *extra).stderr.startswith("3 hosts: nothing to change")
    for node in provisioned.lab:
        node.run("apt-mark", "unhold", "procps")
    (variables / "all.yml").unlink()
    variables.rmdir()
