"""Texts whose causes were counted in public threads: what a line of them names."""

import pytest

from tests.features.explain.judgement.verdicts import named_in

TRACEBACK = 'Traceback (most recent call last):\n  File "/app/train.py", line 88, in <module>\n    main()\n'

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
}


@pytest.mark.parametrize("line", COUNTED)
def test_a_text_names_the_causes_that_were_counted_for_it(line: str) -> None:
    assert named_in(f"{TRACEBACK}{line}\n") == COUNTED[line]


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
