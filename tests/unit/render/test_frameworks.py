import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import NodeCommand, RunPlan, plan_run
from pylaunch.render import hostfile, remarks, render

UNEQUAL = (Host("n1", "10.0.0.1", devices=(2, 3)), Host("n2", "10.0.0.2", fabric_address="fd00::2", devices=(7,)))
BARE = (Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2"))
SCRIPTED = [framework for framework in Framework if framework is not Framework.COMMAND]


def planned(framework: Framework, hosts: tuple[Host, ...] = UNEQUAL, **changes: object) -> RunPlan:
    changes = {"rendezvous_port": 29500, **changes}
    job = JobSpec(("train.py", "--lr", "3"), framework, "/home/ml", **changes)  # type: ignore[arg-type]
    return plan_run(Cluster(hosts), job, "7f3a9c01")


def words(framework: Framework, hosts: tuple[Host, ...] = UNEQUAL, **changes: object) -> tuple[NodeCommand, ...]:
    return tuple(command for _, command in render(planned(framework, hosts, **changes)))


@pytest.mark.parametrize("framework", list(Framework))
def test_no_framework_touches_the_devices_of_a_node(framework: Framework) -> None:
    first, second = words(framework)
    assert (first.env["CUDA_VISIBLE_DEVICES"], second.env["CUDA_VISIBLE_DEVICES"]) == ("2,3", "7")
    assert all("CUDA_VISIBLE_DEVICES" not in rank.env for command in (first, second) for rank in command.ranks)


@pytest.mark.parametrize("framework", SCRIPTED)
def test_what_the_user_sets_wins_over_what_a_framework_chooses(framework: Framework) -> None:
    chosen = {"OMP_NUM_THREADS": "8", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "ACCELERATE_USE_CPU": "no"}
    (first, _) = words(framework, env=chosen)
    seen = {**first.env, **first.ranks[0].env}
    assert {name: seen[name] for name in chosen} == chosen


def test_direct_sets_what_torchrun_sets_and_claims_no_agent_store() -> None:
    _, second = words(Framework.DIRECT)
    assert second.launcher == ()
    assert second.ranks[0].argv == ("/opt/pylaunch/current/bin/python", "-u", "train.py", "--lr", "3")
    assert second.ranks[0].env == {
        "RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "ROLE_NAME": "default",
        "ROLE_RANK": "2", "ROLE_WORLD_SIZE": "3", "TORCHELASTIC_RUN_ID": "7f3a9c01", "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_USE_AGENT_STORE": "False",
    }  # fmt: skip
    assert second.env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "1"
    assert second.env["TORCHELASTIC_SIGNALS_TO_HANDLE"] == "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


def test_jax_gets_the_variables_that_it_reads_from_open_mpi() -> None:
    _, second = words(Framework.JAX)
    assert second.env["JAX_COORDINATOR_ADDRESS"] == "10.0.0.1:29500"
    assert second.env["OMPI_MCA_orte_hnp_uri"] == "0.0;tcp://10.0.0.1:29500"
    assert {name: value for name, value in second.ranks[0].env.items() if name.startswith("OMPI")} == {
        "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    }  # fmt: skip
    assert second.ranks[0].argv[1:5] == ("-u", "-m", "pylaunch.runtime", "train.py")


def test_accelerate_uses_cpus_exactly_where_the_inventory_has_no_devices_and_says_so() -> None:
    assert [command.env["ACCELERATE_USE_CPU"] for command in words(Framework.ACCELERATE)] == ["false", "false"]
    assert remarks(planned(Framework.ACCELERATE)) == ()
    assert [command.env["ACCELERATE_USE_CPU"] for command in words(Framework.ACCELERATE, BARE)] == ["true", "true"]
    (remark,) = remarks(planned(Framework.ACCELERATE, BARE))
    assert "accelerate trains on CPUs" in remark
    assert remarks(planned(Framework.ACCELERATE, BARE, env={"ACCELERATE_USE_CPU": "true"})) == ()
    assert remarks(planned(Framework.DIRECT, BARE)) == ()


def test_accelerate_refuses_machines_whose_ranks_would_never_meet() -> None:
    mixed = (UNEQUAL[0], BARE[1])
    with pytest.raises(UsageError, match="n2 has no devices in the inventory and other nodes have"):
        words(Framework.ACCELERATE, mixed)
    on_cpus = words(Framework.ACCELERATE, mixed, env={"ACCELERATE_USE_CPU": "true"})
    assert [command.env["ACCELERATE_USE_CPU"] for command in on_cpus] == ["true", "true"]


def test_deepspeed_gets_what_its_launcher_gives() -> None:
    first, second = words(Framework.DEEPSPEED)
    assert first.ranks[1].argv[1:] == ("-u", "train.py", "--local_rank=1", "--lr", "3")
    env = second.ranks[0].env
    assert (env["CROSS_RANK"], env["CROSS_SIZE"], env["LOCAL_SIZE"]) == ("1", "2", "1")


def test_the_hostfile_names_every_node_as_ranks_reach_it() -> None:
    assert hostfile(planned(Framework.COMMAND)) == "10.0.0.1 slots=2\nfd00::2 slots=1\n"


@pytest.mark.parametrize(
    ("framework", "argv"),
    [
        (Framework.TORCHRUN, ("-u", "-m", "pkg.train", "--lr", "3")),
        (Framework.DIRECT, ("-u", "-m", "pkg.train", "--lr", "3")),
        (Framework.ACCELERATE, ("-u", "-m", "pkg.train", "--lr", "3")),
        (Framework.DEEPSPEED, ("-u", "-m", "pkg.train", "--local_rank=0", "--lr", "3")),
        (Framework.JAX, ("-u", "-m", "pylaunch.runtime", "-m", "pkg.train", "--lr", "3")),
    ],
)
def test_every_framework_runs_a_module_and_needs_no_file_for_it(framework: Framework, argv: tuple[str, ...]) -> None:
    job = JobSpec(("-m", "pkg.train", "--lr", "3"), framework, "/home/ml", rendezvous_port=29500)
    ((node, command), *_) = render(plan_run(Cluster(BARE), job, "7f3a9c01"))
    assert command.ranks[0].argv[1:] == argv
    assert [need.path for need in command.needs] == [node.host.rank_python]


def test_ray_is_one_rank_on_each_node_with_all_of_its_devices_and_no_numbers_of_ranks() -> None:
    first, second = words(Framework.RAY)
    python = "/opt/pylaunch/current/bin/python"
    node = (python, "-u", "-m", "pylaunch.runtime.ray_node")
    driver = ("--", "train.py", "--lr", "3")
    assert [each.argv for each in (*first.ranks, *second.ranks)] == [
        (*node, "0", "2", "10.0.0.1", "29500", "10.0.0.1", "@short-directory", "--num-gpus=2", *driver),
        (*node, "1", "2", "10.0.0.1", "29500", "fd00::2", "@short-directory", "--num-gpus=1", *driver),
    ]
    assert first.ranks[0].env == {}
    assert (first.env["VLLM_HOST_IP"], second.env["VLLM_HOST_IP"]) == ("10.0.0.1", "fd00::2")
    assert first.env["RAY_AUTH_MODE"] == second.env["RAY_AUTH_MODE"] == "disabled", (
        "a token on node 0 alone refuses all"
    )
    assert "--num-gpus=1" in words(Framework.RAY, ranks_per_node=1)[0].ranks[0].argv


def test_ray_without_devices_counts_them_itself_and_refuses_a_number() -> None:
    first, _ = words(Framework.RAY, BARE)
    assert not [word for word in first.ranks[0].argv if word.startswith("--num-gpus")]
    with pytest.raises(
        UsageError, match="--nproc-per-node 4: with ray it is the number of devices of each node, and n1 has none"
    ):
        words(Framework.RAY, BARE, ranks_per_node=4)
