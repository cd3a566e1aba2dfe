"""Class of an error that no signature knows, by the form of its message: the kind of cause, with its values. Pure.

A form is a kind of sentence that many programs print ("X>=2 is required but you have 1.9", "must be divisible by");
`OF_PROGRAMS` has those of one program each. It is read only in a line that ended a process, so it may be weak.
The order counts: specific forms come first. The confidence is never high.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.errors.errno_words import named_errno
from pylaunch.verdict.logs.errors.other_processes import (
    KILLED_CHILD,
    LONGEST,
    NO_SERVER,
    OUTSIDE,
    is_of_another,
    is_report,
)


@dataclass(frozen=True)
class ErrorClass:
    """Class of an error by its form."""

    cause: str
    """Id of the class of causes."""

    confidence: Confidence
    because: str
    """Words of the message that decided."""

    also: tuple[str, ...] = ()
    """Ids of the other classes that the words admit."""


LOW, MEDIUM = Confidence.LOW, Confidence.MEDIUM

_DTYPE = r"(?:dtype|scalar type|data ?type|c10::\w+|torch\.(?:b?float\d{0,2}|half|double|int\d{0,2}))"
_PARALLEL = (
    r"(?:world[ _-]?size|number of (?:devices|gpus|ranks|processes|nodes)|(?:tensor|pipeline"
    r"|context|expert|sequence|data|model)[ _-](?:model[ _-])?parallel\w{0,10}"
    r"|\b[tpcde]p[ _]?(?:_size|size|degree)\b|num_(?:attention_heads|kv_heads|layers|experts|query_groups)"
    r"|(?:global|micro|train|mini)_?[ -]?batch[ _-]?size|batch_size|micro_batch\w{0,10}|gradient_accumulation_steps)"
)
_DIFFER = (
    r"(?:must|should)(?! be (?:set|enabled|disabled|used|specified)\b)|not equal|mismatch|larger|greater|exceed|less"
    r"|expected"
)
_DAMAGED = r"(?i:unexpected end|truncat|corrupt|bad magic|incomplete|checksum|\bCRC\b)"
_WEIGHTS = r"\.(?:pth?|ckpt|bin|safetensors|distcp|nemo|gguf|pkl|npz|h5|msgpack)\b"
_SAMPLES = r"\.(?:tar|tgz|jsonl?|parquet|arrow|csv|tsv|idx|mds|tfrecord|jpe?g|png|webp|mp4|wav|flac|txt|lmdb|zst|gz)\b"

_REFUSED = (
    r"(?i:invalid|not available|denied|not permitted|exceed|limit|not found|can ?not|unable|must|specif"
    r"|violat|no longer|unknown|mutually exclusive)"
)

_MISMATCH = (
    r"(?i:\b(?:size|shape|length|dtype|type|count|order)s? (?:mismatch|differ)\w{0,4}\b.{0,60}"
    r"\b(?:collective|all_?reduce|all_?gather|reduce_?scatter|broadcast|across ranks)\b"
    r"|\b(?:collective|all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all)\b.{0,80}\bmismatch"
    r"|\b(?:collective|all_?reduce|all_?gather|reduce_?scatter|broadcast)\b.{0,40}\bbytes expected, got\b)"
)
"""Words of ranks whose collectives differ, which name the other rank."""

OF_PROGRAMS: tuple[tuple[str, Confidence, str], ...] = (
    ("slurm-credential", MEDIUM,
     (r"(?i:\bmunged?\b.{0,80}(?:cod(?:e|ing)|credential|socket|\bkey\b|fail|not running)|job credential"
     r"|protocol authentication|invalid authentication credential(?!s)"
     r"|fatal: invalid user id|\bsack sockets|jwt_decode)")),
    ("access-denied", MEDIUM, r"failed to set capabilities"),
    ("slurm-prolog", MEDIUM,
     (r"^(?:\S{1,40}: )?(?:error: )?.{0,80}(?i:prolog|epilog)\b.{0,80}(?i:fail|error|can not|could not|exit"
     r"|status)")),
    ("container-gpu", MEDIUM,
     (r"\bInsufficient Permissions$|nvidia-container-(?:cli|runtime)(?!.{0,120}version mismatch)|nvidia-ctk|CDI device"
     r"|NVIDIA Container Runtime: error|could not select device driver|invalid runtime name: nvidia")),
    ("container-image", MEDIUM,
     (r"(?i:ErrImagePull|ImagePullBackOff|failed to pull image|manifest (?:unknown|for .{0,120} not found)"
     r"|pull access denied)|(?:pyxis|enroot).{0,40}requested URL returned error|https?://\S{0,120}/(?:v2"
     r"|manifests|proxy_auth)\b.{0,160}(?i:error|unauthorized|not found|denied)")),
    ("storage-full", MEDIUM, r"(?i:low on resource: ephemeral-storage|exceeds (?:the )?.{0,40}ephemeral.storage)"),
    ("host-oom", MEDIUM,
     r"(?i:low on resource: memory|\bOOMKilled\b|cgroup out of memory|Out of memory: Kill|oom[-_]kill)"),
    ("user-namespaces", MEDIUM,
     (r"(?i:failed to (?:create|unshare) (?:user )?namespaces?|newuidmap|user namespaces? .{0,40}(?:disabled"
     r"|not (?:enabled|allowed)))")),
    ("resources-missing", MEDIUM,
     (r"FailedScheduling|(?i:nodes are available: .{0,80}insufficient|no nodes are available that match"
     r"|insufficient (?:nvidia\.com/gpu|cpu|memory)\b)|(?i:not enough (?:slots|gpus|nodes"
     r"|resources) (?:available|in)|no available node types)")),
    ("container-start", MEDIUM,
     (r"^\s*Warning +(?:Failed(?:Mount|CreatePodSandBox|AttachVolume)?|BackOff) .{0,60}(?:kubelet|attachdetach)"
     r"|(?:pyxis|enroot|OCI runtime|runc|containerd|apptainer|singularity)\b.{0,160}(?i:fail|error"
     r"|could ?n[o']t|cannot|unable|denied)|^FATAL: {2,}|^(?:docker|podman): (?:unknown|invalid) "
     r"|(?i:Error response from daemon)")),
    ("slurm-node", MEDIUM,
     (r"(?i:Could not establish a configuration source|Unable to contact slurm controller"
     r"|slurmctld.{0,40}(?:not respond|down)|fetch_config|this slurmd's NodeName|Invalid user for SlurmUser"
     r"|cgroup namespace '\w{1,20}' not mounted|^s\w{3,10}: (?:error|fatal): .{0,80}\bcgroup"
     r"|^slurm(?:d|ctld|dbd): fatal: )")),
    ("mpi-pmi", MEDIUM, r"\bPMIX? ERROR(?!.{0,40} gds_)|PMI_\w{3,40}|\bPMIx_\w+|^srun: error: .{0,80}mpi/pmi"),
    ("mpi-launch", MEDIUM, r"\b(?:orted|prted|hydra_pmi_proxy): command not found"),
    ("slurm-request", MEDIUM,
     (r"^(?:srun|sbatch|salloc): (?:unrecognized|invalid) option"
     r"|^(?:.{0,40}FailedJobError: )?(?:sbatch|srun|salloc): (?:error|fatal): (?!.{0,40}(?:task \d|ClusterName"
     r"|node \S+: task|Task launch|Exited|Socket|communication|spank|plugin)).{0,200}"
     rf"{_REFUSED}"
     r"|Batch job submission failed|CPU binding outside of job|Failed to validate job spec"
     r"|(?i:unable to (?:allocate resources|create step))")),
    ("ofi-provider", MEDIUM, r"NET/OFI|(?i:libfabric|fi_\w{3,20}\(?\)? .{0,40}fail)"),
    ("memlock", MEDIUM, r"\bibv_\w{2,40}\b.{0,80}Cannot allocate memory"),
    ("mpi-transport", MEDIUM,
     (r"(?:UC[XC]|TL_[A-Z]{2,9}) +(?:ERROR|FATAL)(?!.{0,200}/dev/shm)|PML \w+ cannot be selected"
     r"|(?i:no components were able to be opened)|No active.{0,20}transport")),
    ("ssh-authentication", MEDIUM, r"Permission denied (?:\(|, please try again)"),
    ("host-oom stopped-from-outside", MEDIUM, KILLED_CHILD),
    ("shared-cache-race", MEDIUM, r"\[Errno 26\]|Text file busy"),
)  # fmt: skip
"""Class, confidence and form of the lines of programs that are not the ranks' own."""

FORMS: tuple[tuple[str, Confidence, str], ...] = (
    ("model-differs", MEDIUM,
     (r"[Rr]ank \d{1,6} has (?:a )?different \w{1,20} for \w"
     r"|(?i:mismatch|not the same|differ\w{0,3}|inconsistent)\b.{0,80}Expected: ?\[.{3,300}\]; ?got: ?")),
    ("memlock", MEDIUM, r"\bmlock\w{0,8}\b.{0,80}(?:Cannot allocate memory|Operation not permitted)"),
    ("package-mismatch file-missing", MEDIUM, r"-\d+\.\d\S{0,20}-\*.{0,60}[Ff]ound:? ?\[[^\]]{0,200}-\d+\.\d"),
    ("file-missing", MEDIUM,
     (r"failed with strerror: (?:Permission denied|No such file)|\[Errno 13\] Permission denied"
     r"|(?i:^(?!.{0,200}(?:enroot|pyxis|docker|container|mount)).{0,200}"
     r"\b(?:(?:open|read|write|save|load)\b.{0,120}|(?:l?stat|mkdir|chdir) /\S{1,300})"
     r": (?:permission denied|no such file))")),
    ("group-missing", MEDIUM,
     r"(?i:(?:process|parallel) group (?:is not|has not been|was not|not) initiali[sz]ed|call init_process_group)"),
    ("env-missing", MEDIUM,
     (r"(?i:environment variable \S{1,60} .{0,30}(?:not set|missing|expected|undefined|required|not defined)"
     r"|KeyError: '[A-Z]+_(?:RANK|SIZE|ADDR|PORT|ID|NODELIST)')|: [A-Z]\w{0,60}: unbound variable")),
    ("cuda-fork", MEDIUM, r"(?i:CUDA in forked|in forked subprocess)"),
    ("hub-rate-limit", MEDIUM, r"\b429\b.{0,40}(?i:client error|too many requests|thrown)|(?i:too many requests)"),
    ("driver-old", MEDIUM,
     (r"PTX was compiled with an unsupported toolchain|driver version is insufficient"
     r"|(?i:driver (?:\S{1,30} ){0,4}(?:is )?too old|requires? (?:\w+ ){0,3}driver)")),
    ("fabric-manager", MEDIUM, r"(?i:fabric ?manager|NVSwitch|system not yet initialized)"),
    ("driver-mismatch", MEDIUM, (r"(?i:driver/library version mismatch"
     r"|NVML: function not found|API mismatch: the client"
     r"|kernel (?:driver|module) version)")),
    ("library-mismatch", MEDIUM,
     (r"version [`']\w{1,20}_[\d.]{1,12}' not found|undefined symbol|symbol lookup error"
     r"|not defined in file \S{1,200} with link time"
     r"|cannot open shared object file|wrong ELF class|(?i:(?:failed to load|could not find .{0,120}) ?\S{0,120}\.so\b)"
     r"|invalid ELF header|DLL load|not define (?:module export|init) function|cannot allocate memory in static TLS"
     r"|(?i:binary incompatibility|\bABI\b.{0,40}(?:mismatch|incompatible|has)|(?:found|runtime) cudnn .{0,40}but "
     r"|(?:nccl|cuda|cudnn|torch) (?:runtime )?version \S{1,20} (?:is|does) not (?:match|compatible))")),
    ("gpu-architecture", MEDIUM,
     (r"no kernel image is available|NoBinaryForGpu|invalid device function|(?i:only supports (?:Ampere|Hopper"
     r"|Turing|Blackwell|SM_?\d))|(?i:compute capability)|(?i:bfloat16 is (?:only|not) supported)"
     r"|\bsm_?\d{2,3}\b.{0,60}(?i:not|require|unsupport)|(?i:(?:requires?|needs?|only (?:supported"
     r"|works) on) .{0,40}(?:GPUs? with|SM\d\d|Hopper|Ampere))")),
    ("container-shm", MEDIUM, r"/dev/shm|insufficient shared memory"),
    ("storage-full", MEDIUM,
     (r"(?i:No space left on device|Disk quota exceeded)"
     r"|(?i:not enough (?:free )?(?:disk|space(?! (?:for|in) \w+ (?:cache|buffer))))"
     r"|(?i:disk (?:is )?full|quota (?:was )?exceeded.{0,40}(?:disk|stor"
     r"|byte|block))|unexpected pos \d|PytorchStreamWriter failed writing")),
    ("container-shm", MEDIUM, r"(?i:out of shared memory|bus error)"),
    ("host-oom", MEDIUM,
     (r"(?i:cannot allocate memory|OOM when allocating .{0,200}by allocator \w{0,4}cpu)"
     r"|Unable to allocate [\d.]+ [KMGTP]i?B|bad_alloc|^MemoryError\b(?!.{0,60}GPU)|DefaultCPUAllocator"
     r"|(?i:exceeded (?:the )?(?:job |step )?memory limit)|(?i:not enough (?:host"
     r"|system|cpu) memory|can't allocate memory)")),
    ("gpu-memory", MEDIUM,
     (r"(?i:out of (?:\w+ )?memory(?! issue)|resource exhausted: o)|OOM when allocating|RESOURCE_EXHAUSTED"
     r"|STATUS_ALLOC_FAILED|OutOfMemory"
     r"|(?i:not enough (?:gpu )?memory|(?:KV|paged) cache.{0,80}(?:larger|exceed|no available|too small"
     r"|not enough|fewer))|(?i:no available memory|(?:larger|greater|more) than the (?:available|free|maximum"
     r"|total) .{0,30}memory)|(?i:free memory on device.{0,80}less than)")),
    ("gpu-missing", MEDIUM,
     (r"(?i:(?<!IB : )no (?:cuda |nvidia |hip )?(?:gpus?|devices?|accelerators?)"
     r" (?:are |is |were )?(?:available|found|detected))"
     r"|(?i:no supported gpu backend|no gpu resources|You requested gpu)|NO_DEVICE|ailed to infer device type"
     r"|(?i:cuda (?:is )?(?:not |un)available"
     r"|found no nvidia driver|cuda-capable device|torch\.cuda\.is_available\(\) is False)"
     r"|(?i:unable to initialize backend '(?:cuda|gpu|rocm)')")),
    ("gpu-busy", MEDIUM, r"(?i:(?:device|gpu|tpu)(?:s|\.so)? (?!or res).{0,40}(?:already in use|busy))"),
    ("app-device-mapping", MEDIUM,
     r"(?i:invalid device ordinal|invalid device id|device_ids? .{0,60}(?:out of range|invalid|only work))"),
    ("gpu-missing framework-config", MEDIUM,
     (r"(?i:not (?:implemented|supported|available|possible) (?:for|on) cpu\b(?! tensors))"
     r"|\"(?!\w{0,80}(?:cuda|cublas|cusolver))\w{1,100}\" not implemented for '(?:Half|BFloat16)'")),
    ("device-placement", MEDIUM,
     (r"(?i:on the same device|at least two devices|not (?:implemented|supported) for CPU tensors)"
     r"|(?i:(?:expected|must be) (?:\w+ ){0,5}(?:on|to be on) (?:cuda|cpu|gpu))|Cannot copy out of meta tensor"
     r"|can't convert cuda|Cannot assign a device for operation"
     r"|(?i:input type .{0,60} and weight type .{0,60} should be the same)")),
    ("gpu-program-fault", MEDIUM,
     r"device-side assert|Assertion `[^`]{1,200}` failed"),
    ("gpu-unexplained", MEDIUM, r"illegal memory access|misaligned address|unspecified launch failure"),
    ("script-arguments", MEDIUM,
     (r"(?i:unrecognized (?:arguments?|options?)|could not consume arg"
     r"|(?<!mpirun: error: )unknown (?:option|flag|argument)(?! type)|invalid choice: "
     r"|no such option|(?:invalid|unrecognized) option --"
     r"|the following arguments are required)|(?i:flag provided but not defined|unexpected extra argument"
     r"|expected (?:one|at least one) argument)|(?i:option .{0,40} requires an argument|keys? .{0,80} (?:not"
     r"|un)used by the HfArgumentParser|missing argument)")),
    ("checkpoint-mismatch", MEDIUM,
     (r"Error\(s\) in loading state_dict|(?i:(?:missing|unexpected) keys?\b.{0,60}|size mismatch\b"
     r"|mismatched? (?:shape|size)s?\b).{0,200}(?i:state[ _]?dict|checkpoint|torch\.Size|weights?\b|saved)"
     r"|Trying to set a tensor of shape|MetadataIndex\(|(?i:shape.{0,120}in (?:the )?checkpoint"
     r"|from (?:the )?checkpoint.{0,80}(?:match|differ|expect|not equal))|(?i:checkpoint.{0,80}(?:different"
     r"|does not match|doesn't match|incompatible|mismatch|world size|was saved with))|(?i:(?:load"
     r"|restor)\w* .{0,40}(?:optimizer|scheduler|rng)[ _]state)")),
    ("checkpoint-damaged", MEDIUM,
     (r"MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeader(?!:)|invalid load key|storage has wrong"
     r"|PytorchStreamReader|ParseFromArray|(?i:protobuf parsing failed)|failed finding central directory"
     r"|pickle data was truncated|(?i:not a (?:distributed )?checkpoint)"
     rf"|{_DAMAGED}.{{0,160}}{_WEIGHTS}|{_WEIGHTS}.{{0,160}}{_DAMAGED}")),
    ("data-damaged", MEDIUM,
     (r"(?i:unexpected end of (?:data|file)|tarfile\.ReadError|BadZipFile|BadGzipFile"
     r"|file seems not fully written|UnidentifiedImageError)"
     rf"|{_DAMAGED}.{{0,160}}{_SAMPLES}|{_SAMPLES}.{{0,160}}{_DAMAGED}"
     r"|(?i:corrupt(?:ed)? (?:record|shard|image|file|data)|magic bytes"
     r"|invalid (?:magic|image(?! \w+[.:] )|tfrecord))")),
    ("collective-mismatch", MEDIUM, _MISMATCH),
    ("program-error", MEDIUM,
     (r"(?i:expected input batch_size .{0,40}to match|expected hidden\[\d\] size)"
     r"|shape '\[[\d, -]{1,80}\]' is invalid for input of size")),
    ("framework-config", MEDIUM, r"(?i:uniform .{0,40}(?:dtype|requires_grad))"),
    ("program-error", MEDIUM,
     (r"CastError|(?i:stack expects each tensor|storage that is not resizable)"
     r"|(?i:couldn't cast|column names don't match)|Arrow(?:Invalid"
     r"|TypeError|NotImplementedError)|DatasetGenerationError")),
    ("config-syntax", MEDIUM,
     (r"(?i:yaml\.\w+\.\w+Error|(?:parser|scanner)\.\w+Error|toml\w*\.\w*Decode\w*"
     r"|could not parse .{0,60}config|config(?:uration)? file error)"
     r"|(?i:error (?:parsing|reading) .{0,80}\.(?:ya?ml|toml|json|cfg|ini))")),
    ("parallel-layout", MEDIUM,
     (r"(?i:\bequal(?:ly|-sized?)? (?:chunk|split)\w*|(?:heads?|hidden|vocab\w*|layers?|experts?|batch\w*|world|ranks?"
     r"|devices?|gpus?|nodes?|mesh|shard\w*"
     r"|dim(?:ension)?|parallel\w*|\b[tpcde]p\b).{0,80}(?:divisible|multiple of"
     r"|(?:divided|split|sharded)\b)|divisible .{0,60}"
     r"(?:world|ranks?|devices?|gpus?|nodes?|mesh|parallel\w*))|(?i:"
     rf"{_PARALLEL}).{{0,160}}(?i:{_DIFFER}|\bgot\b|is not|!=)|(?i:(?:{_DIFFER}).{{0,100}}{_PARALLEL})")),
    ("package-mismatch", MEDIUM,
     (r"(?i:[\w.-]{2,40} ?(?:>=|<=|==|~=|!=|<|>) ?v?\d[\w.]{0,20}.{0,80}(?:is required|installed|upgrade|\binstall\b"
     r"|you have))|(?i:(?:requires?|needs?|depends on|install|upgrade to|please use|support(?:s|ed)?|expects?)\b.{0,60}"
     r"(?:[\w\]](?:>=|<=|==|~=|<|>)|\b(?:version|torch|python|cuda|transformers|numpy) (?:>=|<=|==|~=|<|>)) ?v?\d)"
     r"|(?i:(?:requires?|needs?) (?:an? |the )?(?:at least"
     r"|[\w.-]{1,40})? ?(?:version|release) )|(?i:\b(?:version|release)s? .{0,60}(?:mismatch"
     r"|incompatible|not compatible|too old|too new|not supported|unsupported|conflict))|(?i:(?:incompatible"
     r"|unsupported|mismatched?|conflicting) .{0,30}versions?\b|please (?:upgrade|update|downgrade) (?:your |the )?"
     r"(?:pip|\S{0,20}(?:torch|transformers|package|library|version|driver|release)"
     r"|to (?:version )?v?\d|\w[\w-]{1,40}(?: to|[=<>]=))"
     r")"
     r"|(?i:(?:requires|needs) .{0,40}\d+\.\d+(?:\.\d+)? or (?:newer|later|higher|above))|[Cc]annot import name"
     r"|got an unexpected keyword argument|AttributeError: (?:module|type object"
     r"|partially initialized module) '|AttributeError: '(?:(?:DistributedDataParallel|FullyShardedDataParallel)"
     r"(?=' object has no attribute '_)|DeepSpeed\w+"
     r"|\w*(?:Trainer|Accelerator|Tokenizer|Processor|Config|Cache|Plugin|Strategy|Optimizer\w*))'"
     r" object has no attribute|(?i:DistributionNotFound|VersionConflict|PackageNotFoundError)"
     r"|RuntimeError: operator \w+::\w+ does not exist|Descriptors cannot (?:not )?be created directly"
     r"|was compiled against version|is not a supported wheel|ResolvePackageNotFound|Pip failed")),
    ("checkpoint-mismatch", MEDIUM,
     (r"(?i:(?:checkpoint|state.?dict|weights)\b.{0,120}(?:does not|doesn't|do not|don't) (?:fit|match) the model"
     r"|\bmissing (?:keys?:? )?\[.{1,600}\bunexpected (?:keys?:? )?\["
     r"|checkpoint (?:has|had|of) shape .{1,60}model (?:has|expects|of)\b)")),
    ("package-mismatch program-error", MEDIUM,
     r"AttributeError: '\w{1,80}' object has no attribute '[A-Z]+_[A-Z_\d]{2,}'|mutable default <class"),
    ("checkpoint-mismatch model-unsupported", MEDIUM,
     r"^KeyError: '\w{1,60}\.[\w.]{0,200}(?:weight|bias|qweight|scales|weight_scale)\b"),
    ("checkpoint-damaged", MEDIUM, r"byte range .{1,60} is not valid for value of size"),
    ("file-missing import-path", MEDIUM, r": \d{1,5}: .{1,80}: not found$|command not found$"),
    ("import-path", MEDIUM,
     (r"No module named|Error while finding module specification|^ImportError: [\w-]{2,40} (?:is|was) not found\b"
     r"|(?i:(?:is|are) not installed"
     r"|package .{0,40} not found|please,? (?:pip )?install|pip install )|(?i:[\w-]{2,40} (?:library|package"
     r"|module) (?:is |was )?(?:required|missing|not (?:found|available)))")),
    ("extension-build", MEDIUM,
     (r"^configure: error: |\.(?:cuh?|cc?|[ch]pp|h)(?:\(\d{1,6}\)|:\d{1,6}:\d{1,4}): error: |undefined reference to"
     r"|\bld: cannot find |, is \w+ in \$PATH|unsupported (?:GNU|ICC|clang|compiler)"
     r"|failed with error code \d+ in /\S*pip|(?i:error compiling|failed to (?:build|compile)"
     r"|(?<!TPU )compilation (?:failed|terminated|error)|ninja: build stopped|nvcc fatal|CMake Error"
     r"|(?:JIT|unable to) (?:load|compile|build) the \w+ op|error building extension"
     r"|command .{0,60}(?:gcc|g\+\+|nvcc|cc1plus|ninja)\S{0,20} failed)"
     r"|fatal error: \S+\.h|ailed building wheel|collect2: error|subprocess-exited-with-error|\bg(?:\+\+|cc): error:")),
    ("network-interface", LOW, r"Address family not supported"),
    ("backend-missing", MEDIUM,
     (r"(?i:(?:compiled|built|installed) without \w"
     r"|(?:not|n't|without) (?:been )?(?:compiled|built|build|linked(?= with))(?: |\b).{0,40}(?:with|support|in)\b"
     r"|wasn't compiled)|(?i:(?:no|unknown) (?:such )?backend|backend .{0,40}(?:not (?:available|found"
     r"|supported|built)|unavailable))|Torch not compiled")),
    ("model-unsupported", MEDIUM,
     (r"(?i:(?:architecture|model[ _]?type|model class|quantization)s?\b.{0,80}(?:not (?:supported|recogni[sz]ed"
     r"|found|implemented)|unsupported|unknown))|(?i:(?:unsupported|unknown|unrecogni[sz]ed"
     r"|does not (?:recogni[sz]e|support)) .{0,40}(?:architecture|model|quantization))")),
    ("hub-access", MEDIUM,
     (r"(?i:gated repo|(?:401|403) client error|\bHTTP(?: status| error)?:? 40[13]\b"
     r"|\b40[13]\b.{0,60}(?:token (?:has )?expired|expired token|unauthori[sz]ed|forbidden)"
     r"|Repository ?Not ?Found|invalid (?:user )?(?:token"
     r"|credentials).{0,60}(?:hugging|hub))")),
    ("hub-unreachable", MEDIUM,
     (rf"{OUTSIDE}"
     r"|Connection error, and we cannot find|(?i:network seems down|(?:huggingface\.co|\bhf\.co|modelscope\.cn)"
     r"(?!/(?:docs|blog|models\b|join|settings|spaces|papers))|hf_hub_download|LocalEntryNotFound|offline mode)")),
    ("proxy-variables", MEDIUM, r"Unknown scheme for proxy URL"),
    ("hub-unreachable", LOW, r"ProxyError|(?i:unable to connect to proxy)"),
    ("dns-hosts", MEDIUM,
     (r"(?i:name or service not known|name resolution|(?:could(?: not|n't)|can(?:no|')t|unable to|failed to) resolve"
     r"(?! (?:the |HTTP )?['\"]?(?:/|--|\w*(?:interpol|schedul|optim|class|uri\b|request|file|revision|config|depend"
     r"|conflict|import|symbol)))|unknown host|no such host|getaddrinfo|gaierror"
     r"|nodename nor servname)")),
    ("coordinator-unreachable firewall-port", MEDIUM, NO_SERVER),
    ("coordinator-unreachable", MEDIUM, r"^ConnectionRefusedError: \[(?:Errno 111|WinError 10061)\] [\w ]+$"),
    ("network-interface hub-unreachable", MEDIUM, r"(?i:network is (?:unreachable|down))"),
    ("network-interface firewall-port", MEDIUM, r"(?i:no route to host)"),
    ("port-in-use network-interface", MEDIUM,
     r"failed to listen on any local network address(?:\.?|.{1,60}code: -\d)$"),
    ("port-in-use", MEDIUM,
     r"(?i:address already in use|EADDRINUSE|port (?:at )?\d{2,5} .{0,30}(?:in use|occupied|already|not available))"),
    ("stale-files", MEDIUM, r"(?i:stale (?:NFS )?file handle)|Transport endpoint is not connected: '/"),
    ("disk-error", MEDIUM, r"Input/output error"),
    ("nofile", MEDIUM, r"(?i:too many open files)"),
    ("nproc", MEDIUM, r"(?i:can't start new thread|fork.{0,30}Resource temporarily unavailable|pthread_create failed)"),
    ("file-missing", MEDIUM,
     (r"(?:Errno 2\]|: cd: \S{1,200}:) No such file or directory(?!.{0,300}' -> ')"
     r"|(?i:FileNotFoundError(?!.{0,300} -> )"
     r"|No such file or directory \(os error 2\)|^No such file or directory: '/)"
     r"|(?i:NotADirectoryError|IsADirectoryError|PermissionError)|(?i:(?:file|director(?:y|ies)|folder|path|dataset"
     r"|checkpoint|tokenizer|config(?:uration)? file|config\.\w{2,5}|tracker)\b.{0,160}(?:does not exist"
     r"|doesn't exist|not exist|not found|cannot be found|could not be found|missing))"
     r"|(?i:(?<!nccl warn )(?:can(?:no|')t|could(?: not|n't)|unable to|failed to) (?:find|open|read|locate|access"
     r"|load)\b.{0,80}(?:[ '\"]\.{0,2}/\w|file|path|director|folder"
     r"|checkpoint|tokenizer|dataset))|(?i:expected a string path to|no (?:files?|data|checkpoints?) (?:were "
     r"|was )?found (?:in|at|under))|/[\w.@+=-]{1,80}/\S{0,300} (?i:does not exist|not found|is not a (?:file"
     r"|directory))")),
    ("file-missing program-error", MEDIUM, r"num_samples should be a positive integer value, but got num_samples=0"),
    ("file-missing storage-full", MEDIUM, r"^RuntimeError: File \S{1,300} cannot be opened"),
    ("checkpoint-race shared-cache-race program-error", MEDIUM,
     r"\[Errno 39\] Directory not empty(?!: '[^']{1,200}/(?:pymp|hf_datasets)-)"),
    ("data-damaged", MEDIUM, r"JSONDecodeError"),
    ("numerics", MEDIUM,
     (r"(?i:\b(?:loss|grad\w*|norm)\b.{0,60}\b(?:nan|inf|non-?finite|infinite)\b|\bnan\b.{0,60}\b(?:loss|histogram|grad\w*"
     r"|detected|found|encountered)\b|non-?finite)")),
    ("framework-config", MEDIUM,
     (r"Config(?:Attribute|Key|urationError|)Error|ValidationError|Misconfiguration\w{0,20}: \S"
     r"|(?i:\bcan only be (?:used|set|enabled|specified|chosen) (?:from|with|in|on|for|when|if)\b"
     r"|\b(?:cannot|can't"
     r"|can not) be (?:used|combined|set|enabled|specified) (?:with|together|at the same|when|for|if))"
     r"|(?i:mutually exclusive|(?:only|either) one of .{0,80}(?:should|must|can|may)|(?:is"
     r"|are) incompatible with|not (?:supported|compatible|allowed) (?:with|when|if|together|in combination))"
     r"|(?:Value|Assertion|NotImplemented|Type|Runtime|Configuration"
     r"|Argument)Error: .{0,200}(?i:must (?:specify|provide|set|pass|(?:not )?be (?:set|specified|provided|one of"
     r"|either|in|enabled|disabled|used|True|False)\b)|(?:should|needs? to|has to|have to) be (?:set|specified"
     r"|provided|one of|either|in|enabled|disabled|True|False)\b|please (?:set|specify|provide|enable|disable"
     r"|check your config)|(?:invalid|unsupported|unknown|illegal|bad) (?:value|option|config\w*|setting"
     r"|parameter|strategy|scheduler|optimizer|precision|dtype|attention)|do(?:es)?(?: not|n't) support\b"
     r"|only supports\b|n[o']t supported|set .{0,40}to (?:True|False|None)\b)"
     r"|NotImplementedError: ")),
    ("program-error", LOW,
     r"^terminate called after throwing an instance of 'std::(?!.{0,90}NCCL).{1,80}what\(\): {1,3}\S"),
    ("program-error parallel-layout checkpoint-mismatch", MEDIUM,
     (r"(?i:shapes?\b.{0,60}(?:mismatch|cannot|invalid|aligned|incompatible|must|broadcast|match)"
     r"|sizes? of tensors?|must match the size)")),
    ("program-error", MEDIUM,
     (r"(?i:(?:expected|assign|same|mismatch|match|found|cannot cast"
     r"|but got)\b.{0,60}"
     rf"{_DTYPE}"
     r")|(?i:out of (?:range|bounds)|index \d+ is)|'NoneType'|unsupported operand|not implemented for '"
     r"|nly Tensors of floating point|expected sequence of length|before \w+ were parsed|AF_UNIX path too long"
     r"|^(?:Index|Name|UnboundLocal|ZeroDivision|Recursion|Syntax|Indentation)Error\b")),
    ("import-path package-mismatch", LOW,
     (r"^ImportError: (?!.{0,200}(?:import name|\.so\b|symbol|DLL))|^\w{2,20}Error: [\w-]{2,40} is not available\.?$")),
)  # fmt: skip
"""Classes, confidence and form: the first class is the usual one, and others that the words admit follow."""

_EVERY = (*OF_PROGRAMS, *FORMS)
_COMPILED = [(causes.split(), confidence, re.compile(form)) for causes, confidence, form in _EVERY]

_OWN = re.compile(f"{_MISMATCH}|{OUTSIDE}|{NO_SERVER}|{KILLED_CHILD}|ResumeTimeout|incompatible constructor arguments")
"""Words of an error of the process itself, though it names another rank or waited for a server."""

_OF_CHECKPOINTS = re.compile(
    r" in (?:load_(?:state|checkpoint)|restore)\w{0,20}$"
    r"|/(?:orbax/|checkpoint(?:ing)?/|dist_checkpointing/|checkpoint(?:ing)?\.py|serialization\.py)"
)
"""Places that read or write checkpoints."""

_OF_LAUNCHERS = re.compile(
    r"/deepspeed/launcher/|/accelerate/(?:commands|utils)/launch\.py|/torch/distributed/launcher/"
    r"|/bin/(?:accelerate|deepspeed|torchrun)(?:-\w{1,20})?:"
)
"""Places in launchers: what they raise concerns their configuration."""

_OF_QUEUES = re.compile(r"/multiprocessing/(?:synchronize|queues|heap|shared_memory)\.py")
"""Places that open the semaphores and the memory which processes share."""

_VALUES = re.compile(r"^(?:Value|Key|Runtime|Assertion|Type)Error\b")


@lru_cache(maxsize=512)
def error_class(text: str, place: str = "") -> ErrorClass | None:
    """Return the class of an exception or a line of an error; `place` is the innermost own frame, else the innermost.

    None for a form that is not known, and for a text about another process, whose log holds the cause.
    """
    text = named_errno(text.strip()[:LONGEST])
    if (is_of_another(text) or is_report(text)) and _OWN.search(text) is None:
        return None
    if _OF_QUEUES.search(place) and "FileNotFoundError" in text:
        return ErrorClass("program-error", MEDIUM, "the parent dropped a queue or lock before a child could open it")
    in_launcher = _OF_LAUNCHERS.search(place) is not None
    for (cause, *also), confidence, form in _COMPILED:
        is_open = (in_launcher and cause == "program-error") or (
            cause == "framework-config" and not place and text.startswith("TypeError")
        )
        if not is_open and (found := form.search(text)):
            return ErrorClass(cause, confidence, f"its words: {found[0].strip()[:80]}", tuple(also))
    if in_launcher:
        return ErrorClass("launcher-config", MEDIUM, f"raised in a launcher: {place}")
    if _OF_CHECKPOINTS.search(place) and _VALUES.match(text):
        return ErrorClass("checkpoint-mismatch", MEDIUM, f"raised while a checkpoint is read or written: {place}")
    return None
