"""The variables of PyTorch 2.13, gloo, TensorPipe, JAX 0.10, and of what all of them stand on."""

from pylaunch.features.variables.judgement.kinds import (
    DEVICES,
    ENDPOINT,
    FLAGS,
    FRACTION,
    JAX_BOOL,
    PAIRS,
    PATH,
    SWITCH,
    TEXT,
    THREADS,
    TORCH_BOOL,
    Number,
    ValueKind,
    any_text,
    one_of,
    plain_interfaces,
)
from pylaunch.features.variables.judgement.variable import UnreadVariable, Variable
from pylaunch.model.setting import Source

TORCH_NCCL = Source(
    "PyTorch 2.13, ProcessGroupNCCL environment variables",
    "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html",
)
TORCH_CODE = Source("PyTorch 2.13 source", "https://github.com/pytorch/pytorch")
TORCH_DISTRIBUTED = Source(
    "PyTorch, Distributed communication package", "https://docs.pytorch.org/docs/stable/distributed.html"
)
TORCH_CUDA = Source(
    "PyTorch, CUDA environment variables",
    "https://docs.pytorch.org/docs/stable/cuda_environment_variables.html",
)
JAX_CONFIG = Source("JAX 0.10, configuration options", "https://docs.jax.dev/en/latest/config_options.html")
JAX_CLUSTER = Source("JAX 0.10 source, jax/_src/distributed.py and jax/_src/clusters", "https://github.com/jax-ml/jax")
JAX_MEMORY = Source("JAX, GPU memory allocation", "https://docs.jax.dev/en/latest/gpu_memory_allocation.html")
JAX_INSTALL = Source("JAX, Installation", "https://docs.jax.dev/en/latest/installation.html")
CUDA = Source(
    "CUDA Programming Guide, CUDA environment variables",
    "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html",
)
OPENMP = Source("OpenMP specification, OMP_NUM_THREADS", "https://www.openmp.org/spec-html/5.0/openmpse50.html")
UCX = Source("OpenUCX documentation, Frequently asked questions", "https://openucx.readthedocs.io/en/master/faq.html")
LIBFABRIC = Source("libfabric, fabric(7)", "https://ofiwg.github.io/libfabric/main/man/fabric.7.html")


def _torch_nccl(
    name: str, kind: ValueKind | Number, *, instead: str | None = None, debug_only: bool = False
) -> Variable:
    return Variable(f"TORCH_NCCL_{name}", kind, TORCH_NCCL, instead=instead, debug_only=debug_only)


_TORCH_NCCL_BOOLS = """
AVOID_RECORD_STREAMS BCAST_UNIQUEID BLOCKING_WAIT CUDA_EVENT_CACHE DUMP_ON_TIMEOUT ENABLE_MONITORING
EXTRA_DUMP_ON_EXEC HIGH_PRIORITY LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN PROPAGATE_ERROR RETHROW_CUDA_ERRORS
USE_TENSOR_REGISTER_ALLOCATOR_HOOK USE_COMM_NONBLOCKING
"""
_TORCH = (
    *(_torch_nccl(name, TORCH_BOOL) for name in _TORCH_NCCL_BOOLS.split()),
    *(_torch_nccl(name, TORCH_BOOL, debug_only=True) for name in ("DESYNC_DEBUG", "ENABLE_TIMING", "NAN_CHECK")),
    _torch_nccl("ASYNC_ERROR_HANDLING", Number(0, 3)),
    _torch_nccl("HEARTBEAT_TIMEOUT_SEC", Number(1)),
    _torch_nccl("WAIT_TIMEOUT_DUMP_MILSEC", Number(0)),
    _torch_nccl("COORD_CHECK_MILSEC", Number(1)),
    _torch_nccl("RANKS_PER_ROOT", Number(1)),
    _torch_nccl("NONBLOCKING_TIMEOUT", Number(0)),
    _torch_nccl("DEBUG_INFO_PIPE_FILE", PATH),
    _torch_nccl("TRACE_BUFFER_SIZE", Number(0), instead="TORCH_FR_BUFFER_SIZE"),
    _torch_nccl("TRACE_CPP_STACK", TORCH_BOOL, instead="TORCH_FR_CPP_STACK"),
    _torch_nccl("DEBUG_INFO_TEMP_FILE", PATH, instead="TORCH_FR_DUMP_TEMP_FILE"),
    *(
        Variable(f"NCCL_{name}", kind, TORCH_NCCL, instead=f"TORCH_NCCL_{name}")
        for name, kind in (
            ("BLOCKING_WAIT", TORCH_BOOL),
            ("ASYNC_ERROR_HANDLING", Number(0, 3)),
            ("DESYNC_DEBUG", TORCH_BOOL),
            ("ENABLE_TIMING", TORCH_BOOL),
            ("USE_TENSOR_REGISTER_ALLOCATOR_HOOK", TORCH_BOOL),
        )
    ),
    Variable("TORCH_FR_BUFFER_SIZE", Number(0), TORCH_CODE),
    Variable("TORCH_FR_CPP_STACK", TORCH_BOOL, TORCH_CODE),
    Variable("TORCH_FR_DUMP_TEMP_FILE", PATH, TORCH_CODE),
    Variable("TORCH_FR_DUMP_DYNAMIC_FILE_NAME", TORCH_BOOL, TORCH_CODE),
    Variable("TORCH_DISTRIBUTED_DEBUG", one_of("OFF INFO DETAIL"), TORCH_DISTRIBUTED),
    Variable("TORCH_SHOW_CPP_STACKTRACES", SWITCH, TORCH_DISTRIBUTED),
    Variable("TORCHELASTIC_ERROR_FILE", PATH, TORCH_CODE),
    Variable("TORCHELASTIC_RUN_ID", TEXT, TORCH_CODE),
    Variable("TORCHELASTIC_SIGNALS_TO_HANDLE", any_text("names of signals, comma-separated"), TORCH_CODE),
    Variable("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", TEXT, TORCH_CODE),
    Variable("TORCHELASTIC_USE_AGENT_STORE", any_text("True or False"), TORCH_CODE),
    Variable("TORCHELASTIC_MAX_RESTARTS", Number(0), TORCH_CODE),
    Variable("TORCHELASTIC_RESTART_COUNT", Number(0), TORCH_CODE),
    Variable("TORCHELASTIC_ENABLE_FILE_TIMER", SWITCH, TORCH_CODE),
    Variable("TORCHELASTIC_TIMER_FILE", PATH, TORCH_CODE),
    Variable("TORCHELASTIC_HEALTH_CHECK_PORT", Number(1, 65535), TORCH_CODE),
    Variable("TORCHELASTIC_ETCD_BINARY_PATH", PATH, TORCH_CODE),
    Variable("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", Number(), TORCH_CODE),
    Variable("PYTORCH_ALLOC_CONF", PAIRS, TORCH_CUDA),
    Variable("PYTORCH_CUDA_ALLOC_CONF", PAIRS, TORCH_CUDA),
    Variable("GLOO_SOCKET_IFNAME", plain_interfaces(64), TORCH_DISTRIBUTED),
    Variable("TP_SOCKET_IFNAME", plain_interfaces(1), TORCH_CODE),
    Variable("GLOO_DEVICE_TRANSPORT", TEXT, TORCH_CODE),
    Variable("GLOO_LOG_LEVEL", TEXT, TORCH_CODE),
    Variable("GLOO_DISABLE_CONNECTION_RETRIES", TEXT, TORCH_CODE),
    Variable("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", TEXT, TORCH_CODE),
    Variable("GLOO_ENABLE_STORE_V2_API", TEXT, TORCH_CODE),
)

_JAX_DEBUG = """
CHECK_TRACER_LEAKS DEBUG_INFS DEBUG_KEY_REUSE DEBUG_NANS DISABLE_JIT ENABLE_CHECKS EXPLAIN_CACHE_MISSES LOG_COMPILES
PALLAS_ENABLE_DEBUG_CHECKS PALLAS_POISON_BUFFERS
"""
_JAX_BOOLS = """
ALLOW_F16_REDUCTIONS AUTO_PCAST BCOO_CUSPARSE_LOWERING CHECK_STATIC_INDICES COMPILATION_CACHE_CHECK_CONTENTS
COMPILATION_CACHE_EXPECT_PGLE COMPILATION_CACHE_INCLUDE_METADATA_IN_KEY COMPILER_ENABLE_REMAT_PASS CUSTOM_VJP3
DEBUG_LEAKED_CLIENTS_ON_CLEAR_BACKENDS DISABLE_VMAP_SHMAP_ERROR DISALLOW_MESH_CONTEXT_MANAGER ENABLE_COMPILATION_CACHE
ENABLE_PGLE ENABLE_X64 EXPERIMENTAL_UNSAFE_XLA_RUNTIME_ERRORS EXPORT_IGNORE_FORWARD_COMPATIBILITY
HIGH_DYNAMIC_RANGE_GUMBEL INCLUDE_DEBUG_INFO_IN_DUMPS INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS LOG_CHECKPOINT_RESIDUALS
MOSAIC_ALLOW_HLO NO_TRACING PALLAS_USE_MOSAIC_GPU PALLAS_VERBOSE_ERRORS RAGGED_DOT_USE_GPU_PALLAS_TRITON_LOWERING
RAGGED_DOT_USE_RAGGED_DOT_INSTRUCTION RAISE_PERSISTENT_CACHE_ERRORS REFS_TO_PINS
REMOVE_CUSTOM_PARTITIONING_PTR_FROM_CACHE_KEY REMOVE_SIZE_ONE_MESH_AXIS_FROM_TYPE SCAN3 SHARE_BINARY_BETWEEN_HOSTS
SOFTMAX_CUSTOM_JVP THREAD_GUARD THREEFRY_GPU_KERNEL_LOWERING THREEFRY_PARTITIONABLE USE_DIRECT_LINEARIZE
USE_SHARDY_PARTITIONER CPU_ENABLE_ASYNC_DISPATCH DISABLE_BWD_CHECKS DISTRIBUTED_DEBUG ENABLE_CUSTOM_PRNG
MUTABLE_ARRAY_CHECKS NO_EXECUTION REMAT3 USE_EMIT_PIPELINE_PRIMITIVE USE_SIMPLIFIED_JAXPR_CONSTANTS
"""
_JAX_NUMBERS = """
CAPTURED_CONSTANTS_REPORT_FRAMES CAPTURED_CONSTANTS_WARN_BYTES COMPILATION_CACHE_MAX_SIZE
COMPILER_DETAILED_LOGGING_MIN_OPS EMBEDDED_CONSTANTS_MAX_BYTES EXPORT_CALLING_CONVENTION_VERSION
PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES PGLE_AGGREGATION_PERCENTILE PGLE_PROFILING_RUNS RANDOM_SEED_OFFSET
SERIALIZATION_VERSION SHARE_BINARY_BETWEEN_HOSTS_TIMEOUT_MS TRACEBACK_IN_LOCATIONS_LIMIT
TRACER_ERROR_NUM_TRACEBACK_FRAMES XLA_PROFILE_VERSION
"""
_JAX_TEXTS = """
ARRAY_GARBAGE_COLLECTION_GUARD BACKEND_TARGET COMPILATION_CACHE_DIR CUDA_VISIBLE_DEVICES DEBUG_LOG_MODULES
DEFAULT_DEVICE DEFAULT_MATMUL_PRECISION DEFAULT_PRNG_IMPL DUMP_IR_MODES DUMP_IR_TO
EXEC_TIME_OPTIMIZATION_EFFORT EXPLICIT_X64_DTYPES HLO_SOURCE_FILE_CANONICALIZATION_REGEX LEGACY_PRNG_KEY LOGGING_LEVEL
MEMORY_FITTING_EFFORT MEMORY_FITTING_LEVEL NUMPY_DTYPE_PROMOTION NUMPY_RANK_PROMOTION OPTIMIZATION_LEVEL
PERSISTENT_CACHE_ENABLE_XLA_CACHES PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS PJRT_CLIENT_CREATE_OPTIONS
ROCM_VISIBLE_DEVICES SEND_TRACEBACK_TO_RUNTIME SOURCE_URL_SCHEMA TRACEBACK_FILTERING USE_MAGMA
"""
_GUARD = one_of("allow log disallow log_explicit disallow_explicit", any_case=False)


def _jax(names: str, kind: ValueKind | Number, *, debug_only: bool = False) -> tuple[Variable, ...]:
    return tuple(Variable(f"JAX_{name}", kind, JAX_CONFIG, debug_only=debug_only) for name in names.split())


_JAX = (
    *_jax(_JAX_BOOLS, JAX_BOOL),
    *_jax(_JAX_DEBUG, JAX_BOOL, debug_only=True),
    *_jax(_JAX_NUMBERS, Number()),
    *_jax(_JAX_TEXTS, TEXT),
    *_jax("PLATFORMS", any_text("backends, comma-separated: cuda,cpu")),
    *_jax("CPU_COLLECTIVES_IMPLEMENTATION", one_of("gloo mpi megascale none", any_case=False)),
    *_jax("TRANSFER_GUARD", _GUARD),
    *_jax("TRANSFER_GUARD_DEVICE_TO_DEVICE TRANSFER_GUARD_DEVICE_TO_HOST TRANSFER_GUARD_HOST_TO_DEVICE", _GUARD),
    *_jax(
        "ERROR_CHECKING_BEHAVIOR_DIVIDE ERROR_CHECKING_BEHAVIOR_NAN ERROR_CHECKING_BEHAVIOR_OOB", one_of("ignore raise")
    ),
    Variable("JAX_PLATFORM_NAME", TEXT, JAX_CONFIG, instead="JAX_PLATFORMS"),
    Variable("JAX_COORDINATOR_ADDRESS", ENDPOINT, JAX_CLUSTER),
    Variable("JAX_COORDINATOR_BIND_ADDRESS", ENDPOINT, JAX_CLUSTER),
    Variable("JAX_COORDINATOR_PORT", Number(1, 65535), JAX_CLUSTER),
    Variable("JAX_LOCAL_DEVICE_IDS", any_text("device numbers, comma-separated"), JAX_CLUSTER),
    Variable("JAX_PARTITION_INDEX", Number(0), JAX_CLUSTER),
    Variable("JAX_SLICE_INDEX", Number(0), JAX_CLUSTER),
    Variable("XLA_FLAGS", FLAGS, JAX_CONFIG),
    Variable("XLA_PYTHON_CLIENT_PREALLOCATE", one_of("true false 1 0"), JAX_MEMORY),
    Variable("XLA_CLIENT_MEM_FRACTION", FRACTION, JAX_MEMORY),
    Variable("XLA_PYTHON_CLIENT_MEM_FRACTION", FRACTION, JAX_MEMORY, instead="XLA_CLIENT_MEM_FRACTION"),
    Variable("XLA_PYTHON_CLIENT_ALLOCATOR", one_of("default platform bfc cuda_async vmm"), JAX_MEMORY),
    Variable("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", Number(0), JAX_MEMORY),
    Variable("XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE", SWITCH, JAX_MEMORY),
    Variable("XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT", SWITCH, JAX_MEMORY),
)

_BELOW = (
    Variable("CUDA_VISIBLE_DEVICES", DEVICES, CUDA),
    Variable("CUDA_DEVICE_ORDER", one_of("FASTEST_FIRST PCI_BUS_ID", any_case=False), CUDA),
    Variable("CUDA_LAUNCH_BLOCKING", SWITCH, CUDA, debug_only=True),
    Variable("CUDA_DEVICE_MAX_CONNECTIONS", Number(1, 32), CUDA),
    Variable("CUDA_MODULE_LOADING", one_of("DEFAULT LAZY EAGER"), CUDA),
    Variable("OMP_NUM_THREADS", THREADS, OPENMP),
    Variable("UCX_TLS", any_text("transports, comma-separated; ^ in front excludes them"), UCX),
    Variable("UCX_NET_DEVICES", any_text("devices as mlx5_0:1 or eth0, comma-separated, or all"), UCX),
    Variable("UCX_LOG_LEVEL", TEXT, UCX),
    Variable("UCX_IB_GID_INDEX", TEXT, UCX),
    Variable("FI_PROVIDER", any_text("providers, comma-separated; ^ in front excludes them"), LIBFABRIC),
    Variable("FI_LOG_LEVEL", TEXT, LIBFABRIC),
)

VARIABLES = (*_TORCH, *_JAX, *_BELOW)

UNREAD = (
    UnreadVariable("JAX_NUM_PROCESSES", "jax.distributed.initialize(num_processes=…)", JAX_CLUSTER),
    UnreadVariable("JAX_PROCESS_COUNT", "jax.distributed.initialize(num_processes=…)", JAX_CLUSTER),
    UnreadVariable("JAX_PROCESS_ID", "jax.distributed.initialize(process_id=…)", JAX_CLUSTER),
    UnreadVariable("JAX_PROCESS_INDEX", "jax.distributed.initialize(process_id=…)", JAX_CLUSTER),
    UnreadVariable("TORCH_NCCL_TIMEOUT", "torch.distributed.init_process_group(timeout=…)", TORCH_NCCL),
)
