import pytest

from pylaunch.errors import UsageError
from pylaunch.model.job import Framework
from pylaunch.model.pasted import Pasted, taken_apart

PRINTED = (
    "--num_machines 1 --num_processes 1 --no_python env | grep -E '^(ACCELERATE|FSDP|MEGATRON|PARALLELISM)_'"
    " >accelerate.env && pylaunch start $(sed 's/^/--env=/' accelerate.env) --framework accelerate"
)
"""accelerate prints the variables of its settings for a file."""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torchrun train.py", Pasted("torchrun", ("train.py",))),
        ("torchrun --nnodes=2 --node_rank 1 --rdzv-endpoint=a:1 --nproc-per-node gpu train.py --nnodes 3",
         Pasted("torchrun", ("train.py", "--nnodes", "3"), None, {"nodes": "2", "nproc_per_node": "auto"})),
        ("torchrun --nproc_per_node=gpu --master_port 0 t.py",
         Pasted("torchrun", ("t.py",), None, {"nproc_per_node": "auto"})),
        ("torchrun -m pkg.train --lr 3", Pasted("torchrun", ("-m", "pkg.train", "--lr", "3"))),
        ("torchrun --standalone -- train.py", Pasted("torchrun", ("train.py",))),
        ("/v/bin/torchrun train.py", Pasted("torchrun", ("train.py",), options={"python": "/v/bin/python"})),
        ("python3.11 -u -m torch.distributed.launch --use_env --nproc_per_node=2 train.py",
         Pasted("torchrun", ("train.py",), None, {"nproc_per_node": "2"})),
        ("/v/bin/python -m torch.distributed.run train.py",
         Pasted("torchrun", ("train.py",), options={"python": "/v/bin/python"})),
        ("accelerate launch --num_processes=4 --num_machines 2 --machine_rank 0 --cpu --mixed_precision=bf16 t.py",
         Pasted("accelerate launch", ("t.py",), Framework.ACCELERATE, {"nodes": "2", "nproc_per_node": "2"},
                {"ACCELERATE_USE_CPU": "true", "ACCELERATE_MIXED_PRECISION": "bf16"})),
        ("accelerate launch --dynamo_backend inductor -m pkg.t",
         Pasted("accelerate launch", ("-m", "pkg.t"), Framework.ACCELERATE, {},
                {"ACCELERATE_DYNAMO_BACKEND": "INDUCTOR"})),
        ("deepspeed --num_gpus 2 --master_port 4711 t.py --deepspeed",
         Pasted("deepspeed", ("t.py", "--deepspeed"), Framework.DEEPSPEED, {"nproc_per_node": "2", "port": "4711"})),
        ("deepspeed --no_local_rank t.py", Pasted("deepspeed", ("t.py",), Framework.DIRECT)),
        ("torchrun --no_python prog 7", Pasted("torchrun", ("prog", "7"), Framework.COMMAND)),
        ("A=1 B= torchrun t.py", Pasted("torchrun", ("t.py",), env={"A": "1", "B": ""})),
        ("python -X dev -u t.py -x", Pasted("", ("t.py", "-x"))),
        ("python -m pkg.t -x", Pasted("", ("-m", "pkg.t", "-x"))),
        ("python -c pass", None),
        ("python", None),
        ("hostname -f", None),
        ("uv run t.py", None),
        ("uv run --with deepspeed t.py --engine deepspeed", None),
        ("conda run -n deepspeed python t.py", None),
        ("accelerate config", None),
        ("A=1", None),
    ],
)  # fmt: skip
def test_a_command_line_in_our_terms(line: str, expected: Pasted | None) -> None:
    assert taken_apart(tuple(line.split())) == expected


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("mpirun -np 4 --host a,b python -u t.py -x", "one mpirun per rank, and no rank would know the others",
         "name what it starts: pylaunch start -- python -u t.py -x (an image: --container)"),
        ("srun --mpi=pmix torchrun --nnodes 2 t.py --lr 3", "one srun per rank",
         "name what it starts: pylaunch start -- torchrun --nnodes 2 t.py --lr 3 (an image: --container)"),
        ("docker run --gpus all -v /d:/d torch:mine python t.py", "one docker per rank",
         "name what it starts: pylaunch start -- python t.py (an image: --container)"),
        ("horovodrun -np 4 prog", "one horovodrun per rank",
         "name what it starts: pylaunch start -- train.py (an image: --container)"),
        ("uv run --extra gpu torchrun --nproc_per_node=2 t.py", "one uv per rank",
         "name what it starts: pylaunch start -- torchrun --nproc_per_node=2 t.py (an image: --container)"),
        ("numactl -N 0 accelerate launch t.py", "one numactl per rank",
         "name what it starts: pylaunch start -- accelerate launch t.py (an image: --container)"),
        ("torchrun --run-path t.py", "torchrun --run-path: pylaunch starts the ranks itself and has no such flag",
         "pylaunch start --framework torchrun -- t.py"),
        ("torchrun --nnodes=1:4 t.py", "torchrun --nnodes=1:4: pylaunch starts a fixed number of nodes",
         "--nodes 4; with --max-restarts 3 --min-nodes 1, restarts may have fewer"),
        ("torchrun prog", "torchrun is given prog, which does not end in .py",
         "pylaunch start --framework command -- prog"),
        ("torchrun --nproc-per-node", "torchrun --nproc-per-node: expected a value",
         "is the variable of the shell there not set?"),
        ("torchrun --standalone", "torchrun: no script follows its flags", "pylaunch start -- train.py"),
        ("accelerate launch --num_processes 3 --num_machines 2 t.py", "expected the same number on each",
         "pylaunch start --nodes 2 -- t.py"),
        ("accelerate launch --mixed_precision bf16 --config_file c.yaml --use_fsdp --num_processes 2 -m pkg.t --lr 3",
         "accelerate launch --config_file, --use_fsdp: pylaunch starts the ranks itself",
         (f"accelerate launch --config_file c.yaml --use_fsdp {PRINTED} --nproc-per-node 2 "
          "--env ACCELERATE_MIXED_PRECISION=bf16 -- -m pkg.t --lr 3")),
        ("accelerate launch --config_file c.yaml t.py", "accelerate launch --config_file: pylaunch starts the ranks",
         f"accelerate launch --config_file c.yaml {PRINTED} -- t.py"),
        ("deepspeed --hostfile h t.py", "deepspeed --hostfile", "pylaunch start --framework deepspeed -- t.py"),
        ("torchrun --nnodes= --nproc_per_node 2 t.py", "torchrun --nnodes: expected a value",
         "is the variable of the shell there not set?"),
        ("torchrun --nnodes --node_rank 0 t.py", "torchrun --nnodes: expected a value",
         "is the variable of the shell there not set?"),
    ],
)  # fmt: skip
def test_what_has_no_equivalent_is_refused_with_the_line_to_type(line: str, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        taken_apart(tuple(line.split()))
    assert message in caught.value.message
    assert caught.value.hint == hint


def test_flags_whose_values_are_in_the_inventory_or_among_the_options_are_refused_with_their_place() -> None:
    with pytest.raises(UsageError, match="deepspeed --hostfile, --ssh_port, --include: ") as caught:
        taken_apart(("deepspeed", "--hostfile", "h", "--ssh_port", "22", "--include", "a@b:0", "t.py"))
    assert [line.partition(":")[0] for line in caught.value.evidence] == ["--hostfile", "--ssh_port", "--include"]
