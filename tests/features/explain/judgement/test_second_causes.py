"""Texts that programs print for a second reason: both are named, or the line that decides between them counts."""

import pytest

from tests.features.explain.judgement.verdicts import named_in, verdict_on

TRACEBACK = 'Traceback (most recent call last):\n  File "/app/train.py", line 12, in <module>\n    main()\n'
ON_A_GPU = "RuntimeError: Attempting to deserialize object on a CUDA device"
STATE = "RuntimeError: Error(s) in loading state_dict for Net:\n"
UNPICKLE = (
    "_pickle.UnpicklingError: Weights only load failed. Re-running `torch.load` may help.\n Please file an issue: "
)

ON_A_CPU = "W1025 08:07:07.1 7 xla_bridge.py:364] No GPU/TPU found, falling back to CPU.\n"
PLUGIN = "srun: error: Couldn't load specified plugin name for"
REQUEST = "(autoscaler +9s) Error: No available node types can fulfill resource request"
SHIM = "failed to create shim task: OCI runtime create failed: runc create failed: error running prestart hook #0: "


ABSENT, HUB = "FileNotFoundError: [Errno 2] No such file or directory:", "/h/.cache/huggingface/hub"
OPENED = "unable to open shared memory object </torch_4811_2913> in read-write mode"
IMPORT = "ImportError: cannot import name 'client' from"
NO_ANSWER = "[c10d] The client socket has timed out after 300000ms while trying to connect to ({}, 51216).\n"
BAR = "[>>>>>> ] 1022/5000, 1.5 task/s, elapsed: 673s, ETA: 2621s"
NO_ROOM = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while"


@pytest.mark.parametrize(
    ("log", "causes"),
    [
        (f"{IMPORT} 'orbit' (/e/site-packages/ray/_private/orbit/__init__.py)\n", "import-path"),
        (f"{IMPORT} 'orbit' (/e/site-packages/orbit/__init__.py)\n", "package-mismatch"),
        (f"{IMPORT} 'orbit' (/e/site-packages/orbit-1.2.egg/orbit/__init__.py)\n", "package-mismatch"),
        (NO_ANSWER.format("127.0.0.1"), "hosts-loopback coordinator-unreachable"),
        (NO_ANSWER.format("127.0.1.1"), "hosts-loopback"),
        ("PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168\n", ""),
        (f"{BAR}已杀死\n", "killed"),
        (f"{BAR}Killed\n", "killed"),
        ("zsh: killed     python train.py\n", "killed"),
        ("[1]    12345 killed     python train.py\n", "killed"),
        ("[1]+  Killed                  python train.py\n", "killed"),
        ("[1] Killed  process of an earlier run\nERROR Read timeout [60s] of the plan\n", ""),
        ("zsh: segmentation fault (core dumped)  python train.py\n", "native-crash"),
        ('  File "./tools/train.sh", line 3\n    A=$1\n     ^\nSyntaxError: invalid syntax\n', "launcher-config"),
        ("run.sh: 行 3: 12345 已杀死               python train.py\n", "killed"),
        ("run.sh: 第 3 行\uff1atorchrun\uff1a未找到命令\n", "file-missing import-path"),
        (f"{TRACEBACK}RuntimeError: No CUDA GPUs are available\n", "gpu-missing app-device-mapping"),
        (
            f"{TRACEBACK}{ON_A_GPU} but torch.cuda.is_available() is False.\n",
            "gpu-missing backend-missing app-device-mapping",
        ),
        (f"{TRACEBACK}RuntimeError: Found no NVIDIA driver on your system.\n", "gpu-missing"),
        (
            f"{TRACEBACK}RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n",
            "gpu-busy driver-mismatch",
        ),
        (
            f"{TRACEBACK}RuntimeError: Error 803: system has unsupported display driver / cuda driver combination\n",
            "driver-mismatch driver-old library-mismatch",
        ),
        (
            f"{TRACEBACK}RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED\n",
            "app-device-mapping gpu-missing",
        ),
        ("n1:7:7 [0] NCCL WARN Failed to open libnvidia-ml.so.1\n", "gpu-missing container-gpu"),
        (f"{TRACEBACK}OSError: [Errno 28] No space left on device\n", "storage-full"),
        (f"{TRACEBACK}OSError: [Errno 28] No space left on device: '/ckpt/7.pt'\n", "storage-full"),
        (f"{TRACEBACK}OSError: [Errno 28] No space left on device: '/dev/shm/q7'\n", "container-shm"),
        (f"{TRACEBACK}{ABSENT} '{HUB}/tmp7x' -> '{HUB}/models--a--b/refs/main'\n", "shared-cache-race"),
        (f"{TRACEBACK}{ABSENT} '{HUB}/models--a--b/refs/main'\n", "hub-unreachable file-missing package-mismatch"),
        (f"{TRACEBACK}{ABSENT} '/scratch/exp--lr3/snapshots/epoch5.pt'\n", "file-missing"),
        (f"{TRACEBACK}RuntimeError: {OPENED}: Permission denied (13)\n", "stale-shm"),
        (f"{TRACEBACK}{NO_ROOM} trying to allocate 32.00MiB.\n", "gpu-memory-foreign gpu-memory"),
        (f"{TRACEBACK}{NO_ROOM} trying to allocate 900.00MiB.\n", "gpu-memory"),
        (
            (
                '[rank1]:   File "/opt/env/lib/accelerate/utils/launch.py", line 114, in prepare\n'
                "[rank0]: TypeError: int() argument must be a string, not 'NoneType'\n"
            ),
            "unexplained",
        ),
        (f"{TRACEBACK}RuntimeError: Address already in use\n", "port-in-use duplicate-launch"),
        (f"{TRACEBACK}OSError: [Errno 98] Address already in use: ('0.0.0.0', 29500)\n", "port-in-use"),
        (f"{TRACEBACK}RuntimeError: connect() timed out.\n", "coordinator-unreachable firewall-port"),
        (f"{TRACEBACK}socket.gaierror: [Errno -2] Name or service not known\n", "dns-hosts"),
        ("ssh: Could not resolve hostname n7: Name or service not known\n", "dns-hosts"),
        ("ssh: Could not resolve hostname n7:4: Name or service not known\n", "launcher-config"),
        (
            "kex_exchange_identification: Connection closed by remote host\n",
            "ssh-limits ssh-unreachable firewall-port",
        ),
        (
            "[n2][[7,1],1][btl_tcp_endpoint.c:625:connect] connect() to 172.17.0.1:1024 failed: refused (111)\n",
            "network-interface firewall-port mpi-transport",
        ),
        (f"{TRACEBACK}{STATE}\tMissing key(s) in state_dict: 'a'.\n", "checkpoint-mismatch"),
        (
            f"{TRACEBACK}{STATE}\tsize mismatch for a: copying a param with shape torch.Size([0]) from checkpoint, …\n",
            "checkpoint-damaged",
        ),
        (f"{TRACEBACK}{UNPICKLE}WeightsUnpickler error: Unsupported operand 60\n", "checkpoint-damaged"),
        (f"{TRACEBACK}{UNPICKLE}WeightsUnpickler error: Unsupported operand 149\n", "package-mismatch"),
        (f"{TRACEBACK}{UNPICKLE}WeightsUnpickler error: Unsupported global: GLOBAL a.B\n", "package-mismatch"),
        (f"{SHIM}exit status 1\n", "container-start"),
        ("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n", "killed"),
        ("=   KILLED BY SIGNAL: 11 (Segmentation fault)\n", "native-crash"),
        (
            (
                "slurmstepd: error: *** JOB 7 ON n2 CANCELLED AT 2026-03-01T14:30:00 DUE TO NODE FAILURE, "
                "SEE SLURMCTLD LOG FOR DETAILS ***\n"
            ),
            "session-lost",
        ),
        ("curl: (60) SSL certificate problem: self-signed certificate in certificate chain\n", "hub-unreachable"),
        ("7.0  train  OUT_OF_ME+  0:125\n", "host-oom"),
        (
            f"{SHIM}\nnvidia-container-cli: initialization error: nvml error: driver/library version mismatch\n",
            "driver-mismatch",
        ),
        ("[7] UCX  ERROR ibv_open_device(mlx5_0) failed: Cannot allocate memory\n", "rdma-devices"),
        ("[7] UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory\n", "memlock"),
        ("n1:7:7 [0] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found\n", "config-syntax"),
        (
            "Either there are not enough slots available in the system to launch\nthe 45 processes, or there are\n",
            "launcher-config",
        ),
        (ON_A_CPU, "backend-missing library-mismatch gpu-missing"),
        (ON_A_CPU + "".join(f"step {step} loss=2.1\n" for step in range(8)), ""),
        (f"{PLUGIN} mpi/pmix: Plugin init() callback failed\n", "mpi-pmi"),
        (f"{PLUGIN} auth/munge: Plugin init() callback failed\n", "slurm-prolog"),
        (f"{REQUEST} {{'CPU': 8.0, 'GPU': 8.0}}. Add suitable node types.\n", "resources-missing"),
        (
            f"{REQUEST} {{'node:10.20.0.29': 0.01}}. Add suitable node types.\n",
            "network-interface ray-node-lost resources-missing",
        ),
        ("/bin/sh: hostlist: command not found\n", "file-missing import-path"),
    ],
)
def test_a_text_with_a_second_cause(log: str, causes: str) -> None:
    assert named_in(log) == causes


@pytest.mark.parametrize("error", ["NameError: name 'plan' is not defined", "RuntimeError: stack expects each tensor"])
def test_a_message_without_its_traceback_does_not_show_whose_mistake_it_is(error: str) -> None:
    verdict = verdict_on(f"{error}\n")
    assert verdict.first is None
    assert verdict.first_error is not None
    assert (
        named_in('  File "t.py", line 3\n    if x = 1:\n         ^\nSyntaxError: invalid syntax\n') == "program-error"
    )


FRAMES = '  File "/env/lib/python3.11/site-packages/accelerate/utils/launch.py", line 114, in prepare\n    int(rank)\n'


@pytest.mark.parametrize("beginning", [TRACEBACK, ""], ids=["whole", "without its beginning"])
def test_what_a_launcher_raises_is_about_its_configuration_unless_its_words_show_another_cause(beginning: str) -> None:
    launcher = beginning.replace("/app/train.py", "/env/bin/accelerate")
    assert (
        named_in(f"{launcher}{FRAMES}TypeError: int() argument must be a string, not 'NoneType'\n") == "launcher-config"
    )
    assert named_in(f"{launcher}{FRAMES}ImportError: cannot import name 'log' from 'torch'\n") == "package-mismatch"
    assert named_in(f"{TRACEBACK}TypeError: int() argument must be a string, not 'NoneType'\n") == "program-error"


CUT_TRACE = 'Traceback (most recent call last):\n  File "/srv/train.py", line 8, in main\n    run()\n'
CUT_OF_0 = "".join(f"[rank0]: {each}" for each in CUT_TRACE.splitlines(keepends=True))
IMPORT = "ImportError: cannot import name 'MAJOR' from 'builder' (/tmp/builder.py)\n"


@pytest.mark.parametrize(
    ("log", "causes"),
    [
        (f"[WARNING] Unable to find latest file at ckpt/latest\n{CUT_TRACE}", "file-missing"),
        (CUT_TRACE, "unexplained"),
        (f"[rank3]: [WARNING] Unable to find latest file at ckpt/latest\n{CUT_OF_0}", "unexplained"),
        (f"[WARNING]  unable to import orbit, please install it\n{CUT_TRACE}{IMPORT}", "import-path"),
        (f"{CUT_TRACE}{IMPORT}", "package-mismatch"),
        ("Ignore import error when loading orbit.plan: No module named 'plan'\n", ""),
        (
            f"0% 0:6=0s bb79b6{' ' * 200}enroot-a: failed to set capabilities: Operation not permitted\n",
            "access-denied",
        ),
        ("Namespace(init_method='tcp://n1:29500', rank=0, steps=20, world_size=3)\n", "rank-missing"),
        ("Namespace(init_method='tcp://n1:29500', rank=1, steps=20, world_size=3)\n", ""),
    ],
)
def test_a_log_that_ends_early_is_explained_by_what_it_still_shows(log: str, causes: str) -> None:
    assert named_in(log) == causes
