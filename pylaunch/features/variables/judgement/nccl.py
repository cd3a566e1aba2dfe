"""The variables of NCCL 2.18 to 2.30: those of its user guide, and those that only its source has.

Versions are those of the user guide; for names from the source, the first and the last release whose source has them.
"""

from pylaunch.base.dataclass import replace
from pylaunch.features.variables.judgement.kinds import (
    CIDR,
    ENDPOINT,
    HCAS,
    INTERFACES,
    PATH,
    SWITCH,
    TEXT,
    Number,
    ValueKind,
    any_text,
    one_of,
    per_function,
    words_of,
)
from pylaunch.features.variables.judgement.variable import UnreadVariable, Variable
from pylaunch.model.setting import Source

GUIDE = Source(
    "NCCL 2.30 user guide, Environment Variables",
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
)
CODE = Source("NCCL source, releases 2.3 to 2.30.7", "https://github.com/NVIDIA/nccl")

_LEVEL = one_of("LOC PIX PXB PHB SYS", also="0 1 2 3 4")
_P2P_LEVEL = one_of("LOC NVL PIX PXB PHB SYS", also="0 1 2 3 4")
_FAMILY = one_of("AF_INET AF_INET6", any_case=False)
_SUBSYSTEMS = words_of(
    "INIT COLL P2P SHM NET GRAPH TUNING ENV ALLOC ALLOC_HOST CALL PROXY NVLS BOOTSTRAP REG PROFILE RAS DESTROY ALL"
)
_ALGORITHMS = per_function("Ring Tree CollnetChain CollnetDirect NVLS NVLSTree PAT")
_PROTOCOLS = per_function("LL LL128 Simple")


def _guide(name: str, kind: object, since: str | None = None, **more: object) -> Variable:
    return Variable(f"NCCL_{name}", kind, GUIDE, since, **more)  # type: ignore[arg-type]  # rows of the tables below


# The chapter "System configuration".
_SYSTEM = (
    _guide("SOCKET_IFNAME", INTERFACES),
    _guide("SOCKET_FAMILY", _FAMILY),
    _guide("SOCKET_MAGIC", Number(0), "2.30"),
    _guide("SOCKET_RETRY_CNT", Number(1), "2.24", note="with …_RETRY_SLEEP_MSEC: about 60 s by default"),
    _guide("SOCKET_RETRY_SLEEP_MSEC", Number(1), "2.24"),
    _guide("SOCKET_POLL_TIMEOUT_MSEC", Number(0), "2.28"),
    _guide("SOCKET_NTHREADS", Number(1, 16), "2.4.8"),
    _guide("NSOCKS_PERTHREAD", Number(1, 64), "2.4.8"),
    _guide("CROSS_NIC", Number(0, 2)),
    _guide("IB_HCA", HCAS, note="without = in front, mlx5_1 is also mlx5_10 … mlx5_19"),
    _guide("IB_TIMEOUT", Number(0, 31), note="4.096 µs times 2^n; 0, or 32 and more, is for ever"),
    _guide("IB_RETRY_CNT", Number(0, 7), "2.1.15"),
    _guide("IB_GID_INDEX", Number(-1), "2.1.4", note="chosen by NCCL since 2.21 (-1)"),
    _guide("IB_ADDR_FAMILY", _FAMILY, "2.21"),
    _guide("IB_ADDR_RANGE", CIDR, "2.21"),
    _guide("IB_ROCE_VERSION_NUM", Number(1, 2), "2.21"),
    _guide("IB_SL", Number(0, 15), "2.1.4"),
    _guide("IB_TC", Number(0, 255), "2.1.15"),
    _guide("IB_FIFO_TC", Number(0, 255), "2.22.3"),
    _guide("IB_RETURN_ASYNC_EVENTS", SWITCH, "2.23"),
    _guide("OOB_NET_ENABLE", SWITCH, "2.23"),
    _guide("OOB_NET_IFNAME", replace(HCAS, described="interfaces or adapters as [^][=]name[:port],…"), "2.23"),
    _guide("UID_STAGGER_THRESHOLD", Number(1), "2.23"),
    _guide("UID_STAGGER_RATE", Number(1), "2.23"),
    _guide("NET", TEXT, "2.10", note="IB, Socket or the name of a plugin"),
    _guide("NET_PLUGIN", TEXT, "2.11"),
    _guide("TUNER_PLUGIN", TEXT),
    _guide("PROFILER_PLUGIN", TEXT),
    _guide("ENV_PLUGIN", TEXT, "2.28"),
    _guide("IGNORE_CPU_AFFINITY", SWITCH, "2.4.6"),
    _guide("CONF_FILE", PATH, "2.23", note="replaces ~/.nccl.conf; /etc/nccl.conf is read as well"),
    _guide("DEBUG", one_of("VERSION WARN INFO ABORT TRACE")),
    _guide("DEBUG_FILE", PATH, "2.2.12", note="%h is the host name, %p the process id"),
    _guide("DEBUG_SUBSYS", _SUBSYSTEMS, "2.3.4"),
    _guide("DEBUG_TIMESTAMP_FORMAT", TEXT, "2.26"),
    _guide("DEBUG_TIMESTAMP_LEVELS", words_of("VERSION WARN INFO ABORT TRACE ALL"), "2.26"),
    _guide("COLLNET_ENABLE", SWITCH, "2.6"),
    _guide("COLLNET_NODE_THRESHOLD", Number(0), "2.9.9"),
    _guide("CTA_POLICY", any_text("DEFAULT, EFFICIENCY or ZERO, several with |"), "2.27"),
    _guide("NETDEVS_POLICY", any_text("AUTO, ALL or MAX:N"), "2.28"),
    _guide("MULTI_RANK_GPU_ENABLE", SWITCH, "2.30"),
    _guide("TOPO_FILE", PATH, "2.6"),
    _guide("TOPO_DUMP_FILE", PATH, "2.6"),
    _guide("SET_THREAD_NAME", SWITCH, "2.12"),
)

# The chapter "Debugging". `debug_only` marks those that switch a transport off or force a choice that NCCL makes
# better; others of the chapter are legitimate settings of a fabric.
_DEBUGGING = (
    _guide("P2P_DISABLE", SWITCH, debug_only=True),
    _guide("P2P_LEVEL", _P2P_LEVEL, "2.3.4", debug_only=True),
    _guide("P2P_DIRECT_DISABLE", SWITCH, debug_only=True),
    _guide("SHM_DISABLE", SWITCH, debug_only=True),
    _guide("BUFFSIZE", Number(1), debug_only=True),
    _guide("NTHREADS", one_of("64 128 256 512"), debug_only=True),
    _guide("MAX_NCHANNELS", Number(1), "2.5", instead="NCCL_MAX_CTAS", debug_only=True),
    _guide("MIN_NCHANNELS", Number(1, 64), "2.5", instead="NCCL_MIN_CTAS", debug_only=True),
    _guide("MAX_NRINGS", Number(1), "2.0.5", instead="NCCL_MAX_CTAS", debug_only=True),
    _guide("MIN_NRINGS", Number(1, 64), "2.2.0", instead="NCCL_MIN_CTAS", debug_only=True),
    _guide("CHECK_POINTERS", SWITCH, "2.2.12", instead="NCCL_CHECK_MODE=DEBUG_LOCAL", debug_only=True),
    _guide("CHECK_MODE", one_of("DEFAULT DEBUG_LOCAL DEBUG_GLOBAL"), "2.29.7", debug_only=True),
    _guide("LAUNCH_MODE", one_of("PARALLEL GROUP"), "2.1.0", debug_only=True),
    _guide("IB_DISABLE", SWITCH, debug_only=True),
    _guide("IB_AR_THRESHOLD", Number(0), "2.6"),
    _guide("IB_OOO_RQ", SWITCH, "2.30"),
    _guide("IB_QPS_PER_CONNECTION", Number(1, 128), "2.10"),
    _guide("IB_SPLIT_DATA_ON_QPS", SWITCH, "2.18"),
    _guide("IB_PCI_RELAXED_ORDERING", Number(0, 2), "2.12"),
    _guide("IB_ADAPTIVE_ROUTING", SWITCH, "2.16"),
    _guide("IB_ECE_ENABLE", SWITCH, "2.23"),
    _guide("MEM_SYNC_DOMAIN", SWITCH, "2.16"),
    _guide("CUMEM_ENABLE", SWITCH, "2.18"),
    _guide("CUMEM_HOST_ENABLE", SWITCH, "2.23"),
    _guide("NET_GDR_LEVEL", _LEVEL, "2.3.4"),
    _guide("NET_GDR_C2C", SWITCH, "2.26"),
    _guide("NET_GDR_READ", SWITCH),
    _guide("NET_SHARED_BUFFERS", SWITCH, "2.8"),
    _guide("NET_SHARED_COMMS", SWITCH, "2.12"),
    _guide("IGNORE_NET_MISMATCH", SWITCH, "2.30"),
    _guide("IGNORE_COLLNET_MISMATCH", SWITCH, "2.30"),
    _guide("ALGO", _ALGORITHMS, "2.5", debug_only=True),
    _guide("PROTO", _PROTOCOLS, "2.5", debug_only=True, note="LL128 where it is not supported corrupts data"),
    _guide("NVB_DISABLE", SWITCH, "2.11", debug_only=True),
    _guide("PXN_DISABLE", SWITCH, "2.12", debug_only=True),
    _guide("P2P_PXN_LEVEL", Number(0, 2), "2.12"),
    _guide("PXN_C2C", SWITCH, "2.27"),
    _guide("RUNTIME_CONNECT", SWITCH, "2.22"),
    _guide("GRAPH_REGISTER", SWITCH, "2.11"),
    _guide("LOCAL_REGISTER", SWITCH, "2.19"),
    _guide("LEGACY_CUDA_REGISTER", SWITCH, "2.24"),
    _guide("WIN_ENABLE", SWITCH, "2.27"),
    _guide("SET_STACK_SIZE", SWITCH, "2.9"),
    _guide("GRAPH_MIXING_SUPPORT", SWITCH, "2.13"),
    _guide("GRAPH_STREAM_ORDERING", SWITCH, "2.30"),
    _guide("DMABUF_ENABLE", SWITCH, "2.13"),
    _guide("P2P_NET_CHUNKSIZE", Number(1), "2.14"),
    _guide("P2P_LL_THRESHOLD", Number(0), "2.14"),
    _guide("ALLOC_P2P_NET_LL_BUFFERS", SWITCH, "2.14"),
    _guide("COMM_BLOCKING", SWITCH, "2.14", note="not PyTorch's TORCH_NCCL_BLOCKING_WAIT"),
    _guide("CGA_CLUSTER_SIZE", Number(0, 8), "2.16"),
    _guide("MAX_CTAS", Number(1, 64), "2.17"),
    _guide("MIN_CTAS", Number(1, 64), "2.17"),
    _guide("NVLS_ENABLE", Number(0, 2), "2.17"),
    _guide("IB_MERGE_NICS", SWITCH, "2.20"),
    _guide("NET_MERGE_POLICY", one_of("ALL RAIL"), "2.30.5"),
    _guide("MNNVL_ENABLE", Number(0, 2), "2.21"),
    _guide("MNNVL_UUID", Number(), "2.25"),
    _guide("MNNVL_CLIQUE_ID", Number(), "2.25"),
    _guide("RAS_ENABLE", SWITCH, "2.24"),
    _guide("RAS_ADDR", ENDPOINT, "2.24", note="two jobs on a node need different ports"),
    _guide("RAS_TIMEOUT_FACTOR", Number(1), "2.24"),
    _guide("LAUNCH_ORDER_IMPLICIT", SWITCH, "2.26"),
    _guide("LAUNCH_RACE_FATAL", SWITCH, "2.26"),
    _guide("IPC_USE_ABSTRACT_SOCKET", SWITCH, "2.29"),
    _guide("SYM_GIN_KERNELS_ENABLE", SWITCH, "2.29"),
)

# Gone, and read by no release since 2.18.
_REMOVED = (
    _guide("IB_CUDA_SUPPORT", SWITCH, until="2.3", instead="NCCL_NET_GDR_LEVEL"),
    _guide("IB_GDR_LEVEL", _LEVEL, until="2.3", instead="NCCL_NET_GDR_LEVEL"),
    _guide("SINGLE_RING_THRESHOLD", Number(0), "2.1", until="2.2"),
    _guide("LL_THRESHOLD", Number(0), "2.1", until="2.4", instead="NCCL_PROTO"),
    _guide("TREE_THRESHOLD", Number(0), "2.4", until="2.4", instead="NCCL_ALGO"),
    _guide("CHECKS_DISABLE", SWITCH, "2.0.5", until="2.2.11", instead="NCCL_CHECK_POINTERS"),
)

# In no guide: what they do can change with every release. First release that has them → names.
_UNDOCUMENTED = {
    None: "COMM_ID GDR_FLUSH_DISABLE GROUP_CUDA_STREAM",
    "2.5": "HOSTID LL128_NTHREADS THREAD_THRESHOLDS",
    "2.6": "GRAPH_DUMP_FILE GRAPH_DUMP_FILE_RANK GRAPH_FILE TOPO_DUMP_FILE_RANK",
    "2.7": "LL128_BUFFSIZE LL_BUFFSIZE MAX_P2P_NCHANNELS MIN_P2P_NCHANNELS P2P_READ_ENABLE",
    "2.8": "IB_PKEY IB_USE_INLINE",
    "2.9": "GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE NVB_PRECONNECT",
    "2.11": "GRAPH_HELPER_DISABLE",
    "2.12": "CHUNK_SIZE GDRCOPY_SYNC_ENABLE IGNORE_DISABLED_P2P L1_SHARED_MEMORY_CARVEOUT NCHANNELS_PER_NET_PEER "
    "NET_DISABLE_INTRA",
    "2.13": "CREATE_THREAD_CONTEXT P2P_USE_CUDA_MEMCPY SHM_LOCALITY SHM_MEMCPY_MODE SHM_USE_CUDA_MEMCPY",
    "2.14": "PROXY_DUMP_SIGNAL",
    "2.15": "NET_FORCE_FLUSH",
    "2.16": "P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE PROGRESS_APPENDOP_FREQ PROXY_APPEND_BATCH_SIZE",
    "2.17": "NVLS_NCHANNELS",
    "2.18": "COMM_SPLIT_SHARE_RESOURCES IB_MERGE_VFS NET_OVERHEAD",
    "2.19": "CONNECT_ROUND_MAX_PEERS REPORT_CONNECT_PROGRESS WARN_ENABLE_DEBUG_INFO",
    "2.20": "NVLSTREE_MAX_CHUNKSIZE",
    "2.21": "NVLS_CHUNKSIZE",
    "2.22": "IB_ROUTABLE_FLID_GID_INDEX UNPACK_DOUBLE_NCHANNELS WORK_ARGS_BYTES WORK_FIFO_BYTES",
    "2.23": "PAT_ENABLE",
    "2.24": "IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_WARN_RAIL_LOCAL NET_FORCE_MERGE "
    "NET_MERGE_LEVEL NET_OPTIONAL_RECV_COMPLETION",
    "2.26": "NET_PLUGIN_REF_COUNT",
    "2.27": "COMM_SHRINK_SHARE_RESOURCES IB_DATA_DIRECT LL128_C2C MNNVL_SCATTER_NETS_ENABLE "
    "NVLINK_UTIL_CENTRIC_SCHED_ENABLE SOCKET_INLINE SOCKET_MIN_TASKSIZE SOCKET_RCVBUF SOCKET_SNDBUF SYM_CTAS "
    "SYM_KERNEL WIN_STRIDE",
    "2.28": "GIN_ENABLE GIN_ERROR_QUERY_SEC GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_PROXY_QUEUE_SIZE GIN_TYPE "
    "MNNVL_RAIL_PER_HOST NVTX_DISABLE P2P_SCHEDULE_GROUP_SIZE PROXY_CPUSET SET_CPU_STACK_SIZE "
    "SINGLE_PROC_MEM_REG_ENABLE",
    "2.29": "ALLGATHERV_ENABLE DISABLE_MEM_MANAGER ENABLE_VERSION_CHECK GDAKI_USE_RELIABLE_DB GIN_NCONNECTIONS "
    "GIN_PLUGIN GIN_PLUGIN_REF_COUNT IB_DEVICE_PCI_ORDER IB_PREPOST_RECEIVE_WORK_REQUESTS "
    "IB_RECEIVER_SIDE_MATCHING_SCHEME IB_RESILIENCY_PORT_FAILOVER IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS "
    "IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY LSA_TEAM_SIZE MULTI_SEGMENT_REGISTER NO_CACHE NUM_RMA_CTX "
    "P2P_EPOCH_ENABLE P2P_PER_CHANNEL_NET_BW RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE SYM_CE_THRESHOLD "
    "SYM_NOWIN_ENABLE",
    "2.30": "DEV_API_JIT ELASTIC_BUFFER_REGISTER GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC GIN_IB_TC "
    "IBVERBS_LIB IB_QUERY_PORT_SPEED IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT "
    "IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE "
    "IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT "
    "IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_SUBNET_AWARE_ROUTING "
    "IB_SUBNET_PREFIX_LEN MLOPART_RDMA_ENABLE MNNVL_CROSS_CLIQUE NET_GDR_MLOPART P2P_MAX_PEERS PARAM_DUMP_ALL "
    "RMA_DISABLE RMA_PLUGIN RMA_PLUGIN_REF_COUNT SHADOW_MEMPOOL_MAX_SIZE SYM_REUSE_SYSMEM_HANDLES "
    "SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE TOPO_SPLIT_MLOPART",
}
# Gone since 2.18. Last release that had them → names.
_UNDOCUMENTED_UNTIL = {
    "2.19": "AGG_CHANNEL_SIZE",
    "2.20": "CUDA_PATH MNNVL",
    "2.21": "WORK_FIFO_DEPTH",
    "2.22": "PROXY_PROFILE",
    "2.29": "GIN_COUNTER_POOL_SIZE GIN_EXCLUSIVE_CONTEXTS GIN_NCONTEXTS GIN_SIGNAL_POOL_SIZE",
}
_TEXTS = (
    "CUDA_PATH GIN_PLUGIN HOSTID NET_FORCE_MERGE NET_MERGE_LEVEL NO_CACHE PARAM_DUMP_ALL PROXY_CPUSET PROXY_PROFILE "
    "RMA_PLUGIN SYM_KERNEL THREAD_THRESHOLDS WARN_ENABLE_DEBUG_INFO"
)
_NOT_NUMBERS: dict[str, ValueKind | Number] = {
    "COMM_ID": ENDPOINT,
    "GRAPH_DUMP_FILE": PATH,
    "GRAPH_FILE": PATH,
    "IBVERBS_LIB": PATH,
    **dict.fromkeys(_TEXTS.split(), TEXT),
}


def _code(name: str, since: str | None = None, until: str | None = None) -> Variable:
    kind = _NOT_NUMBERS.get(name, Number())
    return Variable(f"NCCL_{name}", kind, CODE, since, until=until)


VARIABLES = (
    *_SYSTEM,
    *_DEBUGGING,
    *_REMOVED,
    *(_code(name, since) for since, names in _UNDOCUMENTED.items() for name in names.split()),
    *(_code(name, until=until) for until, names in _UNDOCUMENTED_UNTIL.items() for name in names.split()),
)

_TIMEOUT = "torch.distributed.init_process_group(timeout=…)"
UNREAD = (
    UnreadVariable("NCCL_SOCKET_TIMEOUT", "NCCL_SOCKET_RETRY_CNT and NCCL_SOCKET_RETRY_SLEEP_MSEC", CODE),
    UnreadVariable("NCCL_CONNECT_TIMEOUT", "NCCL_SOCKET_RETRY_CNT and NCCL_SOCKET_RETRY_SLEEP_MSEC", CODE),
    UnreadVariable("NCCL_NET_RETRY_COUNT", "NCCL_IB_RETRY_CNT or NCCL_SOCKET_RETRY_CNT", CODE),
    UnreadVariable("NCCL_TIMEOUT", _TIMEOUT, CODE),
    UnreadVariable("NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", CODE),
)
