"""Texts whose causes were counted in public threads: what a line of them names."""

import pytest

from tests.features.explain.judgement.verdicts import first_cause, named_in, verdict_on

TRACEBACK = 'Traceback (most recent call last):\n  File "/app/train.py", line 88, in <module>\n    main()\n'

LIBRARY = 'Traceback (most recent call last):\n  File "/e/site-packages/orbit/core.py", line 8, in read\n'

COUNTED = {
    "FileNotFoundError: [Errno 2] No such file or directory: './checkpoints/base/checkpoint.pth'": "file-missing",
    "FileNotFoundError: [Errno 2] No such file or directory: '/out/tmp-checkpoint-20/rng_state_1.pth'": (
        "checkpoint-race"
    ),
    "FileExistsError: [Errno 17] File exists: '/out/checkpoint-20'": "checkpoint-race",
    "FileNotFoundError: [Errno 2] No such file or directory: '/h/.cache/huggingface/hub/models--a--b/refs/main'": (
        "hub-unreachable file-missing package-mismatch"
    ),
    "FileExistsError: [Errno 17] File exists: '/h/.cache/huggingface/datasets/text/0.0.0/c2.incomplete'": (
        "shared-cache-race"
    ),
    "OSError: weights/model-7b is not a local folder and is not a valid model identifier listed on the hub": (
        "hub-access file-missing framework-config"
    ),
    "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/None/x.json": (
        "hub-access file-missing framework-config"
    ),
    "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/a/b/x.json": (
        "hub-access"
    ),
    "MisconfigurationException: You requested gpu: [1] But your machine only has: []": "gpu-missing",
    "MisconfigurationException: You requested gpu: [1] But your machine only has: [0]": (
        "gpu-missing app-device-mapping"
    ),
    "lightning.fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!": (
        "gpu-missing backend-missing"
    ),
    "RuntimeError: CUDA driver version is insufficient for CUDA runtime version": (
        "driver-old container-gpu gpu-missing"
    ),
    "RuntimeError: unable to open shared memory object </torch_71_1> in read-write mode": "nofile container-shm",
    "RuntimeError: unable to open shared memory object </torch_71_1> in read-write mode: Too many open files (24)": (
        "nofile"
    ),
    "RuntimeError: unable to open shared memory object </torch_71_1> in read-write mode: No space left (28)": (
        "container-shm"
    ),
    "ValueError: Free memory on device cuda:0 (9/22 GiB) on startup is less than desired GPU memory utilization": (
        "gpu-memory-foreign gpu-memory"
    ),
    "ImportError: cannot import name 'Task' from partially initialized module 'queues' (/app/queues.py)": (
        "program-error import-path package-mismatch"
    ),
    "ImportError: cannot import name 'LRScheduler' from 'torch.optim.lr_scheduler' (/env/lr_scheduler.py)": (
        "package-mismatch"
    ),
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1920x2048 and 4096x512)": (
        "program-error framework-config data-damaged"
    ),
    "RuntimeError: expected scalar type Half but found Float": "program-error framework-config",
    "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError": "rank-missing launcher-config firewall-port",
    "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.": (
        "gpu-memory-foreign gpu-memory"
    ),
    "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.": "gpu-memory",
    "XlaRuntimeError: UNKNOWN: Failed to determine best cudnn convolution algorithm for:": (
        "gpu-memory library-mismatch"
    ),
    "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown": "gpu-missing container-gpu",
    "FileNotFoundError: [Errno 2] No such file or directory: ':/usr/local/cuda/bin/nvcc'": "extension-build",
    "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/pymp-x1/listener-y2'": "dataloader-worker",
    "RuntimeError: unable to open shared memory object </torch_71_1> in read-write mode: No such file (2)": (
        "dataloader-worker"
    ),
    "Failed to initialize NVML: could not load NVML library.": "container-gpu gpu-missing",
    "OutOfResources: out of resource: shared memory, Required: 81920, Hardware limit: 65536.": "gpu-architecture",
    "[n2:71] pml_ucx.c:453  Error: Failed to resolve UCX endpoint for rank 95": (
        "mpi-transport firewall-port network-interface"
    ),
    "slurmd: error: Couldn't find the specified plugin name for cgroup/v2 looking at all files": "slurm-node",
    "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11)": "shared-cache-race",
    "OSError: Unable to open file (file signature not found)": "data-damaged checkpoint-damaged",
    "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out.": (
        "hub-unreachable"
    ),
    "ValueError: Attempting to unscale FP16 gradients.": "framework-config program-error package-mismatch",
    "RuntimeError: 'weight' must be 2-D": "framework-config program-error",
    "RuntimeError: disagreement between rank0 and rank2: rank0: [3, 4], rank2: [3, 5]": "model-differs uneven-data",
    "config_class = CONFIG_MAPPING[config_dict[\"model_type\"]]\n    raise KeyError(key)\nKeyError: 'qwen2'": (
        "model-unsupported"
    ),
    "ImportError: This modeling file requires the following packages that were not found in your environment: einops": (
        "import-path"
    ),
    "NameError: name 'flash_attn_varlen_func' is not defined": "package-mismatch",
    "ValueError: You can't train a model that has been loaded in 8-bit precision on multiple devices": (
        "app-device-mapping"
    ),
    "CUDA failed to initialize.\n   [[ System not yet initialized (error 802) ]]": "fabric-manager",
    "failed: Gloo AllReduce failed: [gloo/transport/tcp/buffer.cc:72] Read timeout [::1]:38624": "rank-absent",
    "The task with ID 9 is infeasible and cannot currently be executed. It requires {CPU,1},{GPU,6} for execution": (
        "resources-missing"
    ),
    "ImportError: cannot import name 'client' from 'orbit' (/e/site-packages/ray/_private/orbit/__init__.py)": (
        "import-path"
    ),
    "torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to "
    "(127.0.0.1, 51216).": "hosts-loopback coordinator-unreachable",
}

OF_TOOLS = {
    f"{TRACEBACK}    torch.save(state, 'x')\n  File \"/e/site-packages/torch/serialization.py\", line 3, in save\n"
    "FileNotFoundError: [Errno 2] No such file or directory: '/srv/out/optimizer.pt'": "file-missing checkpoint-race",
    f'{TRACEBACK}  File "error.pxi", line 79, in lib.check_status\nlib.ArrowIOError: Encountered unexpected': (
        "unexplained"
    ),
    "RuntimeError: Failed to SSH to 10.128.0.10 after timeout 600s, with Timeout: not ready.": "ssh-unreachable",
    "n1:1:1 [0] p2p.cc:262 NCCL WARN Cuda failure 'peer access is not supported between these devices'": "no-transport",
    "AttributeError: Can't get attribute 'Blend' on <module 'plans' from '/srv/plans.py'>": (
        "package-mismatch program-error model-differs"
    ),
    '[rank0]: read\n[rank1]: Traceback (most recent call last):\n[rank1]:   File "/srv/t.py", line 5, in main\n'
    "[rank1]:     bcast(o)\n[rank1]: AttributeError: Can't get attribute 'Blend' on <module 'plans' from p>": (
        "model-differs"
    ),
    '[rank1]: read\n[rank0]: Traceback (most recent call last):\n[rank0]:   File "/srv/t.py", line 5, in main\n'
    "[rank0]:     torch.load(p)\n[rank0]: AttributeError: Can't get attribute 'Blend' on <module 'plans' from p>": (
        "package-mismatch program-error model-differs"
    ),
    'Traceback (most recent call last):\n  File "/srv/t.py", line 5, in main\n    ask(n1)\n'
    "requests.exceptions.ConnectionError: HTTPConnectionPool(host='n1.orbit.org', port=8080): Max retries exceeded with"
    " url: /a (Caused by NewConnectionError('[Errno 111] Connection refused'))": "unexplained",
    "builtins.ConnectionError: ray client connection timeout": "coordinator-unreachable",
    "requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='api.orbit.org', port=443): Max retries exceeded with"
    " url: /a (Caused by ConnectTimeoutError('Connection to api.orbit.org timed out.'))": "hub-unreachable",
    "init(37): gethostbyname failed, p9 (errno 1)\n: Bad file descriptor": "dns-hosts",
    "Err:1 http://deb.orbit.org stable InRelease\n  Temporary failure resolving 'deb.orbit.org'": "dns-hosts",
    'slurmctld: error: set_addr: Unable to resolve "c7"\nslurmctld: double free or corruption (!prev)': "dns-hosts",
    "[E1120 21:04:34.46 socket.cpp:957] [c10d] The client socket has timed out after 900s whi": (
        "coordinator-unreachable firewall-port"
    ),
    "worker.py:2: UserWarning: Ray Client connection timed out. Ensure that\n  warnings.warn(\n"
    'Traceback (most recent call last):\n  File "a.py", line 2, in <module>\n    ray.init("ray://10.1.0.2:6379")': (
        "coordinator-unreachable"
    ),
    'Internal error: failed calling webhook "jobs.example.io": Post "https://x.svc:443/a": context deadline exceeded': (
        "coordinator-unreachable"
    ),
    "The actor is dead because its worker process has died. Worker exit type: UNEXPECTED_SYSTEM_EXIT Worker exit"
    " detail: Worker unexpectedly exits with a connection error code 2. End of file.": (
        "host-oom native-crash stopped-from-outside"
    ),
    "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 114).": "driver-old",
    "W nvptx_compiler.cc:70] Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.": "library-mismatch",
    "n0:1:1 [0] NCCL INFO NET/Plugin : dlerror=libfabric.so.1: version `FABRIC_1.7' not found (required by /e/n.so)": (
        "library-mismatch"
    ),
    "terminate called after throwing an instance of 'std::system_error'\n  what():  Operation not permitted": (
        "container-start nproc"
    ),
    "'orbitctl' is not recognized as an internal or external command,": "import-path file-missing",
    "'orbitctl' \ufffd\ufffd\ufffd\ufffd\ufffd": "import-path file-missing",
    "Usage: orbit [OPTIONS]\nError: No such command 'fly'.": "import-path script-arguments package-mismatch",
    "ERROR GET https://api.orbit.org/repos/a/b?ref=05: 404 Not Found []": "file-missing",
    "1 more\nORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[4,0],0] on node l\n"
    "  Remote daemon: [[4,0],2] on node w2\n\nORTE was unable to reliably start one or more daemons.": "session-lost",
    "Sorry!  You were supposed to get help about:\n    init:failure\nBut I couldn't open the help file:\n"
    "    /srv/mpi/help-rte.txt: No such file or directory.  Sorry!\n*** An error occurred in MPI_Init": "file-missing",
    "check(1):  Auto-detection of PMI version failed. Found both.\nFatal error in internal_Init_thread: x": "mpi-pmi",
    "n1:rank0:  Trying to connect from eth0 port 1 (subnet 10.1.0.7/32) to a node (IP=10.2.0.8/32 TCP=4 UDP=5) on a"
    " different subnet 10.2.0.8/32": "ofi-provider",
    "flag provided but not defined: -orbit-image": "script-arguments",
    "[ERROR] Command not found: nvidia-container-cli, see\n[ERROR] /etc/98-nvidia.sh exited with return code 1": (
        "container-gpu"
    ),
    "FileNotFoundError: [Errno 2] No such file or directory: '/e/site-packages/orbit/VERSION'": "backend-missing",
    'Traceback (most recent call last):\n  File "/app/t.py", line 8, in main\n    os.remove(lock)\n'
    "FileNotFoundError: [Errno 2] No such file or directory: '.lock_n0'": "shared-cache-race program-error",
}


@pytest.mark.parametrize("line", COUNTED)
def test_a_text_names_the_causes_that_were_counted_for_it(line: str) -> None:
    assert named_in(f"{TRACEBACK}{line}\n") == COUNTED[line]


@pytest.mark.parametrize("text", OF_TOOLS)
def test_what_tools_print_without_a_traceback_names_its_causes(text: str) -> None:
    assert named_in(f"start\n{text}\n") == OF_TOOLS[text]


def test_a_warning_of_a_toolkit_or_a_plugin_is_no_cause_of_a_run_that_goes_on() -> None:
    warned = (
        "W a.cc:7] Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.\n"
        "n0:1:1 [0] NCCL INFO NET/Plugin : dlerror=l.so: version `FABRIC_1.7' not found (required by /e/n.so)\n"
    )
    assert named_in(warned + "".join(f"step {step} loss 2.1\n" for step in range(9))) == ""


@pytest.mark.parametrize(
    "warned",
    [
        "Using default W8A8 kernel config. Performance might be sub-optimal! Config file not found at /opt/n.json",
        "Cannot import amp_O, using the pure python implementation",
        "Can't load optimizer state; starting from scratch",
        "Cannot find /usr/share/o.json; default values are used",
    ],
)
def test_a_line_that_says_what_is_used_instead_is_no_failure_where_the_log_goes_on(warned: str) -> None:
    assert not verdict_on(f"starting\n{warned}\nloading the model\nthe server listens\n").failed
    assert verdict_on(f"starting\n{warned}\n").failed is ("default" not in warned)


def test_what_a_tool_of_containers_may_not_do_is_no_fault_of_the_driver() -> None:
    log = "nvidia-container-cli: permission error: capability change failed: operation not permitted\n"
    assert named_in(log) == "access-denied"


def test_a_crash_of_ray_names_the_function_that_it_prints() -> None:
    log = "*** SIGSEGV received at time=17 on cpu 1 ***\nPC: @     0x7fcfcd849b8a  (unknown)  orbitProxy()\n"
    assert named_in(log) == "native-crash"
    assert "a process crashed in orbitProxy" in first_cause(log).text


def test_a_crash_names_the_library_of_its_first_frame_that_is_none_of_the_system() -> None:
    frames = "".join(
        f"[n1:35] [ {at}] {lib}[0x7fe2]\n"
        for at, lib in enumerate(("/lib/libpthread.so.0(+0x11)", "/e/orbit/native.so(+0x34)"))
    )
    log = f"[n1:35] *** Process received signal ***\n[n1:35] Signal: Segmentation fault (11)\n{frames}"
    verdict = verdict_on(log)
    assert verdict.first is not None
    assert (verdict.abstains, verdict.first.text) == (False, "a process crashed in native.so")


def test_the_line_that_decides_precedes_the_text_with_several_causes() -> None:
    refused = (
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/a/b/x.json\n"
    )
    decides = "huggingface_hub.errors.GatedRepoError: 401 Client Error.\nYou are trying to access a gated repo.\n"
    assert named_in(f"{TRACEBACK}{refused}{decides}") == "hub-access"


def test_a_name_that_an_init_container_asks_for_again_is_no_cause_alone() -> None:
    waiting = "nslookup: can't resolve 'train-master-0': Name does not resolve\nwaiting for master\n"
    refused = "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has"
    assert named_in(f"{waiting}step 1 loss 2.1\n") == ""
    assert named_in(f"{waiting}{TRACEBACK}{refused} failed. See inner exception for details.\n") == "dns-hosts"
