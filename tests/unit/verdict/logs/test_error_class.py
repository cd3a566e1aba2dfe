"""The class of an error is read from the form of its message, and its confidence is never high."""

import re

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.errors.error_class import FORMS, OF_PROGRAMS, error_class
from pylaunch.verdict.logs.errors.library_forms import OF_IMPORTS
from tests.unit.verdict.logs.judged import cause_in, scanned

CLASSES = {
    "ImportError: orbit>=2.1,<3 is required but orbit 1.9 is installed": "package-mismatch",
    "RuntimeError: orbit needs a newer version of lattice": "package-mismatch",
    "TypeError: Planner.__init__() got an unexpected keyword argument 'depth'": "package-mismatch",
    "AttributeError: 'DistributedDataParallel' object has no attribute '_set_plan'": "package-mismatch",
    "OSError: /lib64/libm.so.6: version `GLIBC_2.38' not found (required by /srv/liborbit.so)": "library-mismatch",
    "ImportError: /srv/orbit.so: undefined symbol: _ZN5orbit4planEv": "library-mismatch",
    "orbit: error: the provided PTX was compiled with an unsupported toolchain.": "driver-old",
    "ValueError: Orbit only supports Hopper GPUs": "gpu-architecture",
    "RuntimeError: paged cache needs 9 GiB, larger than the available 4 GiB of memory": "gpu-memory",
    "MemoryError: Unable to allocate 31.2 GiB for an array": "host-oom",
    "orbit.CacheError: quota exceeded: 12 bytes over": "storage-full",
    "RuntimeError: no GPUs available": "gpu-missing",
    "RuntimeError: plan and data must be on the same device": "device-placement",
    "orbit: error: unrecognized arguments: --local-rank=3": "script-arguments",
    "ERROR: Could not consume arg: --local_rank=0": "script-arguments",
    "AssertionError: hidden size 4097 is not divisible by 8": "parallel-layout",
    "ValueError: world_size (7) must be equal to tp * pp (8)": "parallel-layout",
    "RuntimeError: missing keys in the state_dict: ['layers.0']": "checkpoint-mismatch",
    "OrbitError: step_400/model.safetensors: unexpected end of stream": "checkpoint-damaged",
    "OrbitError: shard-7.tar: checksum differs": "data-damaged",
    "orbit.ConfigKeyError: Key 'depth' is not in struct": "framework-config",
    "ValueError: flash attention is not supported with packing": "framework-config",
    "IndexError: list index out of range": "program-error",
    "OSError: c.so: symbol a version X not defined in file b.so with link time reference": "library-mismatch",
    "docker: Error response from daemon: unknown or invalid runtime name: nvidia.": "container-gpu",
    "bash: line 0: cd: /work: No such file or directory": "file-missing",
    "srun: error: MPI: Cannot create context for mpi/pmix": "mpi-pmi",
    "bash: orted: command not found": "mpi-launch",
    "mlx5_0: ibv_create_cq() failed: Cannot allocate memory.": "memlock",
    "ValueError: Expected input batch_size (32) to match target batch_size (16).": "program-error",
    "TypeError: unsupported operand type(s) for //: 'NoneType' and 'NoneType'": "program-error",
    "sbatch: unrecognized option '--plan'": "slurm-request",
    "docker: unknown flag: --plan": "container-start",
    "fatal: Unable to determine this slurmd's NodeName": "slurm-node",
    "RuntimeError: Failed to infer device type": "gpu-missing",
    "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy it": "device-placement",
    "ValueError: num_samples should be a positive integer value, but got num_samples=0": "file-missing",
    "ValueError: mutable default <class 'orbit.Plan'> for field plan is not allowed": "package-mismatch",
    "TypeError: Descriptors cannot be created directly.": "package-mismatch",
    "KeyError: 'orbit.layers.0.q_proj.weight'": "checkpoint-mismatch",
    "ERROR: Failed building wheel for orbit": "extension-build",
    "g++: error: unrecognized command line option '-std=c++17'": "extension-build",
    "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/plan'": "stale-files",
    "ValueError: Unknown scheme for proxy URL URL('socks://n1:1')": "proxy-variables",
    "RuntimeError: The server socket has failed to listen on any local network address.": "port-in-use",
    "RuntimeError: \"orbit_cuda\" not implemented for 'Int'": "program-error",
    "RuntimeError: \"orbit_cuda\" not implemented for 'BFloat16'": "program-error",
    "RuntimeError: \"orbit_cpu\" not implemented for 'Half'": "gpu-missing",
    "RuntimeError: orbit attention only supports SM90": "gpu-architecture",
    "RuntimeError: Orbit was built without plan support": "backend-missing",
    "/usr/bin/ld: cannot find /tmp/orbit/plan.o: No such file or directory": "extension-build",
    "No such file or directory: '/srv/plan.yaml'": "file-missing",
    "OSError: [Errno 39] Directory not empty": "checkpoint-race",
    "AssertionError: a free plan can only be chosen on one node": "framework-config",
    "Rank 2 has different values for plan: 7. Other ranks: 9": "model-differs",
    "[1723.1] [n3:82 :0]  tl_shm_team.c:61  TL_SHM ERROR Child failed to attach": "mpi-transport",
    "OSError: [Errno 101] Network is unreachable": "network-interface",
    "ValueError: bf16 plans are not supported for CPU training": "gpu-missing",
    "RuntimeError: no wheel for orbit-2.1-*.whl. Found: ['/srv/orbit-1.9-py3.whl']": "package-mismatch",
    "FileNotFoundError: [Errno 2] No such file or directory: '/srv/plan.json'": "file-missing",
    "Failed to list: stat /root/.orbit/config: no such file or directory": "file-missing",
    "AttributeError: 'Orbit' object has no attribute 'LEGACY_PLAN'": "package-mismatch",
    "ResourceExhaustedError: OOM when allocating tensor with shape[8192,1000]": "gpu-memory",
    "ResourceExhaustedError: OOM when allocating tensor with shape[8,1] by allocator mklcpu": "host-oom",
    "*** FATAL CONFIG FILE ERROR ***": "config-syntax",
    "ABORTED: libtpu.so is already in use by another process.": "gpu-busy",
    "urllib.error.URLError: <urlopen error [Errno 110] Connection timed out>": "hub-unreachable",
    "curl: (28) Failed to connect to raw.orbit.com port 443: Connection timed out": "hub-unreachable",
    "AssertionError: orbit currently only supports plans in fp16": "framework-config",
    "configure: error: Could not find orbit devel headers.  Can not continue.": "extension-build",
    "error visiting device: error getting device memory info: Insufficient Permissions": "container-gpu",
    "RuntimeError: loss is nan at step 12": "numerics",
    "sbatch: error: Parameter --gres=gpu:1 no longer acceptable, please switch to --gpus=1": "slurm-request",
    "slurmd: error: Munge decode failed: Rewound credential": "slurm-credential",
    "The node was low on resource: memory.": "host-oom",
    "[1580.1] [n1:4121:0] select.c:406  UCX  ERROR no transport to n2": "mpi-transport",
    "[1575.4] [n3:133:0]  posix.c:158  UCX  ERROR Not enough memory. Please check that /dev/shm": "container-shm",
    "ProcessExitedException: process 0 terminated with signal SIGKILL": "host-oom",
    "RuntimeError: Orbit requires a lattice version that's at most a month old": "package-mismatch",
    "RuntimeError: failed to listen on any local network address. port: 4657, useIpv6: 0, code: -9": "port-in-use",
    "orbit.NotUpError: Failed to connect to serve controller, please try again later.": "coordinator-unreachable",
    "MaxRetryError: host n1 (Failed to establish a new connection: [Errno 111] Refused)": "coordinator-unreachable",
    "ValueError: the sweep requires alpha >= 0.5 but 0.1 was given; please update the sweep": "framework-config",
    "ValueError: tensor parallelism requires the orbit to be enabled": "framework-config",
    "AssertionError: lattice is not available.": "import-path",
    "srun: error: Unable to get cgroup root controllers.": "slurm-node",
    "slurmd: fatal: Socket count exceeds 12": "slurm-node",
    "srun: error: CPU binding outside of job step allocation": "slurm-request",
    "srun: error: failed to connect to any sack sockets": "slurm-credential",
    "ValueError: one of SRC or DST must be a plan": "framework-config",
    "AssertionError: --plan must be set when using expert parallelism": "framework-config",
    "ImportError: Orbit requires the lattice library but it was not found in your environment": "import-path",
    "ValueError: Unrecognized model in /srv/plan. Should have a `kind` key in its config.json": "model-unsupported",
    "KeyError: 'layers.0.orbit.w13_weight'": "checkpoint-mismatch",
    "ImportError: orbit.plan moved to orbit.plans": "import-path",
    "AssertionError: depth must be >= 0, got -3": "framework-config",
    "ValueError: Cannot pass both 'depth' and 'width'.": "framework-config",
    "ValueError: `depth=True` requires `width=2`.": "framework-config",
    "RuntimeError: orbits are not yet supported with two planners": "framework-config",
    "enroot-aufs2ovlfs: failed to set capabilities: Operation not permitted": "access-denied",
    "NVRM: API mismatch: the client has the version 535.1": "driver-mismatch",
    "ERROR: [Errno 98] error while attempting": "port-in-use",
    "orbit: failed with errno 28": "storage-full",
    "Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout": "coordinator-unreachable",
    "RuntimeError: No backend type associated with device type cuda.": "backend-missing",
    "orbit.NetworkError: Could not refresh the plan. Network seems down.": "hub-unreachable",
    "KeyError: '`plan` requires `depth` key'": "framework-config",
    "Failed to initialize NVML: Function Not Found": "driver-mismatch",
    "Execution of replica 0 failed: Resource exhausted: Out": "gpu-memory",
    "ImportError: dynamic module does not define module export function (PyInit_orbit)": "library-mismatch",
    "backend failed to initialize: Found cuDNN version 8600, but Orbit was built against version 8906": (
        "library-mismatch"
    ),
    "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0": "library-mismatch",
    "AssertionError: only support equal chunk. Got size of Plan 2 and chunk 4.": "parallel-layout",
    "/opt/bin/python: Error while finding module specification for 'orbit.plan' (ModuleNotFou": "import-path",
    "ImportError: Orbit was not found. Please see its page": "import-path",
    "RuntimeError: Orbit is not linked with support for lattice devices": "backend-missing",
    "ValueError: Connection error, and we cannot find the requested files in the cached path.": "hub-unreachable",
    "ConnectionRefusedError: [Errno 111] Connection refused": "coordinator-unreachable",
    "ConnectionRefusedError: [WinError 10061] No connection could be made because the target machine refused it": (
        "coordinator-unreachable"
    ),
    "ValueError: plan_port at 40290 is not available in 30 seconds.": "port-in-use",
    "orbit.UnparsedFlagAccessError: Trying to access flag --plan before flags were parsed.": "program-error",
    "error: mpicxx -show failed (see error below), is MPI in $PATH?": "extension-build",
    "TypeError: Cannot cast array data from dtype('O') to dtype('int64')": "program-error",
}
NO_CLASS = [
    "ValueError: Insufficient Permissions to write to the orbit",
    "ValueError: a plan of this depth is forbidden",
    "RuntimeError: orbit() can only be called on contiguous plans",
    "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='n1.orbit.org', port=8080): Read timed out.",
    "NCCL WARN NET/IB : No device found.",
    "RuntimeError: Step 1 exited with non-zero status 1",
    "RuntimeError: Engine core initialization failed. See root cause above.",
    "slurmstepd: error: pyxis: container start failed with error code: 1",
    "RuntimeError: Connection reset by peer",
    "TimeoutError: the plan timed out after 30 s",
    "OrbitError: the orbit decayed",
    "KeyError: 'plan'",
    "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:911, unhandled system error, NCCL version 2.7.8",
    "ValueError: image height 511 is not divisible by 32",
    "tracker.AuthenticationError: authentication error: the key of the tracker is not valid",
    "ValueError: plan 7 has no steps, see https://huggingface.co/docs/orbit",
    "ValueError: Expected depths must be 4-D tensors of one shape",
    "ValueError: invalid literal for int() with base 10: 'a'",
    "RuntimeError: Worker failure: the plan",
    "RuntimeError: nothing was planned; see the planner logs above for the error",
    "RuntimeError: the plan stopped because another rank failed to read it",
    "OrbitError: Cannot resolve '--group' option.",
    "OrbitError: not enough space for orbit cache, enlarge it",
    "OrbitError: InvalidHeader: reserved character in header a",
    "OrbitError: update --lattice-modules to the modules of the plan",
    "HTTPException: Invalid authentication credentials",
    "RuntimeError: the planner did not signal ready within 300s",
    "ValueError: each orbit must define a callable",
    "TPU compilation failed",
    'mpirun: Error: unknown option "--version"',
    "graph/paths.cc:60 NCCL WARN Could not find a path for pattern 4",
    "RuntimeError: plan_test failed! Received signal: SIGIOT",
    "Exception: -- Process 3 terminated with the following error:",
    "[n1:8] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168",
]


@pytest.mark.parametrize("text", CLASSES)
def test_the_form_of_a_message_shows_its_class(text: str) -> None:
    found = error_class(text)
    assert found is not None
    assert found.cause == CLASSES[text]
    assert found.confidence is not Confidence.HIGH
    assert found.because


@pytest.mark.parametrize("text", NO_CLASS)
def test_a_report_a_victim_and_an_unknown_form_have_no_class(text: str) -> None:
    assert error_class(text) is None


def test_a_library_that_lacks_an_attribute_is_another_release_and_a_script_is_not() -> None:
    text = "AttributeError: 'Planner' object has no attribute 'depth'"
    assert error_class(text, "/srv/run/train.py:8") is None
    found = error_class(text, "/srv/env/lib/python3.11/site-packages/orbit/plan.py:8")
    assert found is not None
    assert (found.cause, found.confidence) == ("package-mismatch", Confidence.LOW)


def test_a_name_that_a_library_does_not_define_is_a_fault_of_its_release() -> None:
    text, package = (
        "NameError: name 'is_planned' is not defined",
        "/srv/env/lib/python3.11/site-packages/orbit/plan.py:8",
    )
    found = error_class(text, "/srv/run/train.py:8", package)
    assert found is not None
    assert found.cause == "package-mismatch"
    found = error_class(text, "/srv/run/train.py:8", "/srv/run/train.py:8")
    assert found is not None
    assert found.cause == "program-error"


def test_a_value_error_where_a_checkpoint_is_read_is_about_the_checkpoint() -> None:
    found = error_class("ValueError: cannot turn 2 into (1, 64)", "/srv/lib/python3.11/site-packages/orbax/a.py:3")
    assert found is not None
    assert found.cause == "checkpoint-mismatch"
    assert error_class("KeyError: 'plan'", "/srv/train.py:8") is None
    found = error_class("KeyError: 'plan'", "/srv/train.py:8 in load_state")
    assert found is not None
    assert found.cause == "checkpoint-mismatch"


def test_an_error_that_is_raised_where_options_are_checked_is_about_an_option() -> None:
    text, package = "ValueError: 7 planners and 3 orbits", "/srv/env/lib/python3.11/site-packages/orbit"
    assert error_class(text, "/srv/train.py:8 in run", f"{package}/plan.py:3 in forward") is None
    for place in (f"{package}/arguments.py:3 in finish", f"{package}/plan.py:3 in __post_init__"):
        found = error_class(text, "/srv/train.py:8 in run", place)
        assert found is not None
        assert found.cause == "framework-config"


def test_the_command_of_a_package_is_not_the_program_that_raised() -> None:
    package = '  File "/srv/env/lib/python3.11/site-packages/orbit/cli.py", line 3, in main\n    run()\n'
    log = f'Traceback (most recent call last):\n  File "/srv/env/bin/orbit", line 8, in <module>\n    main()\n{package}'
    assert cause_in([scanned(f"{log}RuntimeError: the orbit decayed\n")]).cause.id == "unexplained"


def test_every_form_names_a_class_of_the_catalogue_and_none_is_sure() -> None:
    known = signatures().causes
    for causes, confidence, form in (*OF_PROGRAMS, *FORMS, *OF_IMPORTS):
        assert set(causes.split()) <= set(known)
        assert confidence is not Confidence.HIGH
        assert re.compile(form).groups == 0


def test_an_exception_of_user_code_is_the_cause_unless_its_words_admit_several() -> None:
    def also(error: str) -> list[str]:
        log = f'Traceback (most recent call last):\n  File "/srv/train.py", line 3, in main\n    run()\n{error}\n'
        first = cause_in([scanned(log)])
        assert first.cause.id == "program-error"
        return [each.id for each in first.also]

    assert also("TypeError: run() got 3 of 2") == []
    assert also("ValueError: the model does not use encoder_outputs") == []
    assert also("KeyError: 'val_split'") == []
    assert also("ValueError: shapes of the meshes must match") == ["parallel-layout", "checkpoint-mismatch"]


PACKAGES = "/opt/env/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("frames", "error", "causes"),
    [
        (("/srv/train.py",), "KeyError: 'val_split'", "program-error"),
        (("/srv/train.py", "/usr/lib/python3.11/json/encoder.py"), "TypeError: no JSON", "program-error"),
        (("/srv/train.py", f"{PACKAGES}/lit/fit.py"), "AssertionError: one node", "program-error package-mismatch"),
        (("/srv/train.py", "/src/ray/python/ray/api.py"), "KeyError: 'obj'", "program-error package-mismatch"),
        ((r"C:\t.py", r"C:\env\lib\site-packages\lit\fit.py"), "KeyError: 'obj'", "program-error package-mismatch"),
        (("/srv/train.py", f"{PACKAGES}/torch/loss.py"), "IndexError: Target 9 is out of bounds.", "program-error"),
        (("/srv/train.py", f"{PACKAGES}/lit/fit.py"), "IndexError: list index out", "program-error package-mismatch"),
        (("/srv/train.py", "plan.pyx", "error.pxi"), "lib.PlanError: no end", "program-error package-mismatch"),
        (("/srv/train.py", "plan.pyx", "error.pxi"), "lib.IOError: no end", "unexplained"),
        (("/srv/train.py",), "RuntimeError: Invalid opaque object size", "unexplained"),
        (("/srv/train.py",), "OSError: [Errno 16] Device or resource busy", "unexplained"),
        (("/srv/train.py",), "OSError: [Errno 26] Text file busy: 'bin/tok'", "shared-cache-race"),
    ],
)
def test_the_program_is_at_fault_alone_only_where_its_own_code_raised_the_exception(
    frames: tuple[str, ...], error: str, causes: str
) -> None:
    stack = "".join(f'  File "{each}", line 3, in main\n    run()\n' for each in frames)
    first = cause_in([scanned(f"Traceback (most recent call last):\n{stack}{error}\n")])
    assert " ".join(each.id for each in (first.cause, *first.also)) == causes


def test_a_spawned_process_that_sigkill_ended_is_the_cause_unless_another_one_failed_before() -> None:
    trace = 'Traceback (most recent call last):\n  File "/srv/train.py", line 3, in main\n    run()\n'
    killed = f"{trace}torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n"
    first = cause_in([scanned(killed)])
    assert (first.cause.id, [each.id for each in first.also]) == ("host-oom", ["stopped-from-outside"])
    assert cause_in([scanned(f"{trace}ValueError: boom 7\n{killed}")]).cause.id == "program-error"


def test_a_script_for_bash_that_sh_runs_is_not_the_cause_of_another_failure() -> None:
    line = "run.sh: 4: source: not found\n"
    assert (
        cause_in([scanned(f"{line}run.sh: 5: conda: not found\n[ERROR] no environment\n")]).cause.id
        == "launcher-config"
    )
    failed = 'Traceback (most recent call last):\n  File "/srv/train.py", line 3\nIndexError: list index out of range\n'
    assert cause_in([scanned(f"{line}step 1 loss 2.1\n{failed}")]).cause.id == "program-error"
