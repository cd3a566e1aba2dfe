from pylaunch.agent.run import spawn
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec, Sync
from pylaunch.model.plan import PORT_ENTRY, RunPlan, plan_run
from pylaunch.render import render
from pylaunch.runs.prepare.launch import node_task

CLUSTER = Cluster(
    (Host("n1", "10.0.0.1", devices=(2, 3), interface="eth1"), Host("n2", "10.0.0.2", fabric_address="192.168.0.2"))
)


def planned(framework: Framework, *command: str, **changes: object) -> RunPlan:
    job = JobSpec(command, framework, "/home/ml", **changes)  # type: ignore[arg-type]
    return plan_run(CLUSTER, job, "7f3a9c01")


def test_torchrun_gets_this_node_and_where_to_meet() -> None:
    (_, first), (_, second) = render(planned(Framework.TORCHRUN, "train.py", "--lr", "3"))
    assert first.launcher == (
        "/opt/pylaunch/current/bin/python", "-m", "torch.distributed.run", "--nnodes=2", "--node-rank=0",
        "--nproc-per-node=2", "--master-addr=10.0.0.1", "--master-port=@port@", "--rdzv-id=7f3a9c01",
        "--max-restarts=0", "--log-dir=@launcher-files", "--no-python", "@rank",
    )  # fmt: skip
    assert "--node-rank=1" in second.launcher
    assert "--nproc-per-node=1" in second.launcher


def test_every_rank_runs_the_script_with_its_place_in_the_world() -> None:
    (_, first), (_, second) = render(planned(Framework.TORCHRUN, "train.py", "--lr", "3"))
    assert first.ranks[1].argv == ("/opt/pylaunch/current/bin/python", "-u", "train.py", "--lr", "3")
    assert second.ranks[0].env == {
        "RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "@port@",
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "7f3a9c01",
    }  # fmt: skip


def test_the_interface_of_the_inventory_reaches_every_library_in_its_own_spelling() -> None:
    (_, first), (_, second) = render(planned(Framework.TORCHRUN, "train.py"))
    assert first.env["GLOO_SOCKET_IFNAME"] == "eth1"
    assert first.env["NCCL_SOCKET_IFNAME"] == "=eth1"
    assert "GLOO_SOCKET_IFNAME" not in second.env


def test_devices_become_visible_devices_and_their_absence_changes_nothing() -> None:
    (_, first), (_, second) = render(planned(Framework.TORCHRUN, "train.py"))
    assert first.env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert "CUDA_VISIBLE_DEVICES" not in second.env


def test_ranks_see_no_device_of_others_where_a_scheduler_gives_devices_to_jobs() -> None:
    hosts = (
        Host("n1", "10.0.0.1", devices=(1,), withholds_devices=True),
        Host("n2", "10.0.0.2", withholds_devices=True),
    )
    plan = plan_run(Cluster(hosts), JobSpec(("train.py",), Framework.DIRECT, "/home/ml"), "7f3a9c01")
    assert [node.env["CUDA_VISIBLE_DEVICES"] for _, node in render(plan)] == ["1", ""]


def test_the_interpreter_asked_for_is_used_and_leads_the_path() -> None:
    (_, first), _ = render(planned(Framework.TORCHRUN, "train.py", python="/venv/bin/python3"))
    assert first.launcher[0] == "/venv/bin/python3"
    assert first.env["PATH"].startswith("/venv/bin:")
    assert [need.path for need in first.needs] == ["/venv/bin/python3", "train.py"]
    assert "/usr/bin/python3 for a script without packages" in first.needs[0].hint


def test_the_word_for_the_port_is_the_one_the_agent_knows() -> None:
    assert PORT_ENTRY == spawn.PORT_ENTRY


def test_only_the_first_node_holds_the_port_and_chooses_it_when_nobody_else_has() -> None:
    plan = planned(Framework.TORCHRUN, "train.py")
    tasks = [node_task(plan, node, words, "") for node, words in render(plan)]
    assert [(task.hold_port, task.choose_port) for task in tasks] == [(None, True), (None, False)]
    assert [list(task.peers.values()) for task in tasks] == [["10.0.0.1", "192.168.0.2"]] * 2
    plan = planned(Framework.TORCHRUN, "train.py", rendezvous_port=4711)
    (_, first), (_, second) = render(plan)
    tasks = [node_task(plan, node, words, "") for node, words in render(plan)]
    assert [(task.hold_port, task.choose_port) for task in tasks] == [(4711, False), (None, False)]
    assert "--master-port=4711" in second.launcher
    assert first.ranks[0].env["MASTER_PORT"] == "4711"


def test_devices_are_leased_where_they_are() -> None:
    plan = planned(Framework.TORCHRUN, "train.py")
    tasks = [node_task(plan, node, words, "") for node, words in render(plan)]
    assert [task.devices for task in tasks] == [[2, 3], []]


def test_a_node_reads_a_script_that_was_not_on_the_controller() -> None:
    for is_unread, expected in ((True, ["-m", "pkg.train"]), (False, [])):
        plan = planned(Framework.TORCHRUN, "-m", "pkg.train", "--lr", "3", is_unread=is_unread)
        tasks = [node_task(plan, node, words, "") for node, words in render(plan)]
        assert [task.unread_program for task in tasks] == [expected, expected]


def test_the_hint_for_a_missing_script_names_sync_unless_the_code_travels_already() -> None:
    (_, first), _ = render(planned(Framework.TORCHRUN, "train.py"))
    assert first.needs[1].hint.startswith("correct the path, take the code along with --sync .")
    (_, first), _ = render(planned(Framework.TORCHRUN, "train.py", sync=Sync("/home/ml", "0" * 64, 1, 1)))
    assert "--sync" not in first.needs[1].hint


def test_the_hint_for_a_missing_interpreter_names_the_inventory_where_there_may_be_one() -> None:
    job = JobSpec(("train.py",), Framework.DIRECT, "/home/ml", python="/v/bin/python")
    ssh, slurm = Host("n1", "10.0.0.1"), Host("n1", "n1", connection=Connection.SLURM, slurm_job="7")
    hints = [node.needs[0].hint for host in (ssh, slurm) for _, node in render(plan_run(Cluster((host,)), job, "7f3a"))]
    assert hints[0].removeprefix(hints[1]) == ", pylaunch_python= in the inventory one for each host"
