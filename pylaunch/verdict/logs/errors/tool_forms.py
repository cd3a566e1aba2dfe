"""Forms of messages of tools around a run (clouds, Kubernetes, queues, package managers) and of libraries. Pure."""

from pylaunch.model.diagnosis.confidence import Confidence

MEDIUM = Confidence.MEDIUM

OUTSIDE = (
    r"HTTPS?ConnectionPool\(host='[\w.-]{1,80}\.(?:ai|cn|co|com|dev|io|net|org)', port=(?:80|443)\b"
    r"|ailed to connect to [\w.-]{1,80}\.(?:ai|cn|co|com|dev|io|net|org) port (?:80|443)\b"
    r"|<urlopen error \[Errno 1(?:01|10)\]|Couldn't reach '[^']{1,200}' on the Hub"
)
"""Words of a server on the Internet that does not answer."""

NO_SERVER = (
    r"Failed to establish a new connection: \[Errno 1(?:10|11|13)\]"
    r"|(?i:failed to connect to (?:\w+ ){0,3}(?:controller|scheduler)\b)"
    r"|Unable to connect to the server: (?:dial|read|net/http|EOF)"
)
"""Words of a client whose server does not accept the connection."""

KILLED_CHILD = r"(?i:process) \d{1,5} terminated with signal SIGKILL"
"""Words of a parent (torch.multiprocessing) that sends no SIGKILL of its own."""

OF_TOOLS: tuple[tuple[str, Confidence, str], ...] = (
    ("access-denied", MEDIUM,
     (r"\bis forbidden: (?!.{0,80}quota)|ApiException: \(40[13]\)"
     r"|mount\S{0,10}: .{0,40}access denied|RuntimeError: Permission denied\W{0,3}$"
      r"|\b[Bb]ind\b.{0,60}[Pp]ermission denied"
      r"|^[\w.-]{2,40}: (?!.{0,200}mlock).{1,200}: Operation not permitted$")),
    ("resources-missing", MEDIUM,
     (r"(?<!Request)LimitExceeded\) when calling|RESOURCE_POOL_EXHAUSTED|\(QuotaExceeded\)"
     r"|(?i:does not have enough resources available"
     r"|insufficient ?\w{0,10} ?capacity|failed to acquire resources|no quota for|quota\b.{0,80}\b(?:region|zone)s?\b"
     r"|quota '\w{1,60}' exceeded|no resource satisfying|any instances satisfying|quota exceeded for"
     r"|launchable resources)")),
    ("hub-rate-limit", MEDIUM,
     r"\((?:Throttling|RequestLimitExceeded)|ThrottlingException|(?i:\brate ?limit(?:ed|error| exceeded| reached)\b)"),
    ("hub-access", MEDIUM,
     (r"HttpError 40[13]\b|\b(?:not authorized to perform|UnauthorizedOperation)\b"
      r"|\) PERMISSION_DENIED: |PermissionDenied: 403|IAM_PERMISSION|Forbidden: 403"
     r"|<Response \[40[13]\]>|(?i:permission '\S{1,80}' denied)")),
    ("launcher-config", MEDIUM,
     (r"\(AlreadyExists\): |\.[a-z0-9.]{2,60} \"[\w.-]{1,99}\" already exists")),
    ("storage-stall", MEDIUM, r"This client was evicted by"),
    ("gpu-missing", MEDIUM,
     (r"modprobe: (?:FATAL|ERROR): .{0,40}\bnvidia(?![\w-])"
      r"|(?i:ensure .{0,20}nvidia driver is installed|\brock module is not loaded)")),
    ("rdma-devices", MEDIUM,
     r"modprobe: (?:FATAL|ERROR): .{0,40}\b(?:nv_peer_mem|nvidia.peermem|ib_|mlx|rdma)|\bibv_open_device\b"),
    ("rdma-gid rdma-mtu", MEDIUM, r"(?i:\bmodify (?:the )?qp\b.{0,40}\b(?:rtr|rts)\b)"),
    ("launcher-config", MEDIUM,
     r"admission webhook \"[\w./-]{1,120}\" denied the request|WRONGPASS|redis\.\w{1,20}\.AuthenticationError"),
    ("coordinator-unreachable launcher-config", MEDIUM,
     r"Kubernetes cluster unreachable|connection to the server \S{1,120} was refused"),
    ("launcher-config", MEDIUM,
     (r"error: error validating \"|\bis invalid: spec[.:]"
      r"|^spec\.[\w.\[\]-]{1,200}: (?:Invalid|Required|Unsupported) value\b")),
    ("package-mismatch", MEDIUM,
     (r"^[A-Z]\w{2,60} has no attribute '_[a-z]"
      r"|\b(?:[Ff]eature|[Oo]p|[Cc]odec) type (?:'?\w{1,60}'? )?not (?:found|registered)")),
    ("import-path package-mismatch", MEDIUM, r"\b(?:function|actor|task) was not imported properly"),
    ("port-in-use", MEDIUM,
     (r"no port available in the range|(?i:(?:\bno|n[o']t (?:find|get)|(?:unable|failed) to (?:find|get))"
      r" (?:any |an? )?(?:open|free|empty|available|unused) (?:tcp )?ports?\b)")),
    ("jax-arguments", MEDIUM, r"initialize it via `?jax\.distributed\.initialize"),
    ("checkpoint-race", MEDIUM, r"Configuration mismatch on uuid"),
    ("package-mismatch program-error", MEDIUM, r"^[A-Z]\w{2,60} has no attribute '|Invalid mesh_dim_name"),
    ("checkpoint-mismatch program-error", MEDIUM, r"flax\.errors\.Scope(?:Param|Variable)\w+Error"),
    ("gpu-memory-foreign gpu-memory", MEDIUM, r"failed to allocate .{3,40} from device: CUDA_ERROR_OUT_OF_MEMORY"),
    ("network-interface coordinator-unreachable firewall-port", MEDIUM, r"\bNoValidAddresse"),
    ("env-missing framework-config", MEDIUM,
     r"\b[Pp]lease set (?:the )?[`']?(?![A-Z_]{0,40}(?:DEBUG|BLOCKING|ALLOC_CONF))[A-Z]{2,}_[A-Z_]{2,40}\b"),
    ("env-missing", MEDIUM,
     (r"\.(?:cc|cpp|h):\d{1,5} ?: Missing \w{2,40} configuration"
      r"|\b(?:SLURM|OMPI|PMIX?|MASTER|WORLD|LOCAL|NODE)_[A-Z_]{2,40} (?:is |was )?(?:not set|missing|unset|undefined)\b"
      r"|(?i:(?<!failed to )(?<!able to )\b(?:launch|run|start)(?:ed)? .{0,60}\b(?:with|using|via) .{0,40}"
      r"\b(?:torchrun|torch\.distributed\.(?:launch|run)|accelerate launch)\b)")),
    ("env-syntax", MEDIUM, r"': not a valid identifier$"),
    ("launcher-config", MEDIUM,
     (r": syntax error near unexpected token|: bad substitution$|^from: can't read /var/mail/"
      r"|\.py: (?:line )?\d{1,6}: .{1,80}: (?:command )?not found$")),
    ("framework-config program-error", MEDIUM,
     r"FileNotFoundError: (?:.{0,80} )?'(?:[^']{0,200}/)?None(?:/[^']{0,200})?'"),
    ("launcher-config env-syntax", MEDIUM, r"(?i:\burl is invalid\b|\binvalid (?:url\b(?! ')|port number\b))"),
    ("shared-cache-race", MEDIUM, r"Expected to find locked file"),
    ("proxy-variables coordinator-unreachable", MEDIUM, r"^AssertionError: .{0,60}<Response \[50[24]\]>"),
    ("version-skew launcher-config", MEDIUM, r"\bcode = Unimplemented\b|(?i:\bunknown (?:service|method) [\w/]+\.\w)"),
    ("native-crash", MEDIUM, r"^={4} backtrace"),
    ("backend-missing framework-config", MEDIUM, r"No backend type associated with device type cuda"),
    ("launcher-config version-skew", MEDIUM,
     (r"\bCustomResourceDefinition \S{1,120} is invalid|no matches for kind \S{1,80} in version"
     r"|\b(?:json|strict decoding error): unknown field ")),
    ("slurm-request", MEDIUM, r"^(?:qsub|bsub|condor_submit): |Job not submitted\.$"),
    ("config-syntax", MEDIUM, r"ClusterName needs to be specified|Unable to process configuration file"),
    ("framework-config", MEDIUM, r"(?i:\bconfiguration (?:parameter|option|key) '[\w.-]{1,80}')"),
    ("slurm-node", MEDIUM,
     (r"fatal: Can't find plugin for|not resumed by ResumeTimeout|not responding, setting DOWN"
      r"|different slurm\.conf than|^slurmdbd: error: mysql"
     r"|(?i:error: .{0,80}\b(?:unable|could not|can ?not|can't)\b.{0,80}/slurm\S{0,40}\.conf\b)")),
    ("container-image", MEDIUM, r"ErrImageNeverPull"),
    ("container-start", MEDIUM, r"(?i:connect to the docker daemon)"),
    ("ssh-authentication", MEDIUM,
     (r"AuthenticationException: |No authentication methods available|Too many authentication failures"
      r"|^Bad owner or permissions on")),
    ("terminal-missing", MEDIUM, r"^sudo: (?:a (?:password|terminal) is required|no tty present)"),
    ("package-mismatch", MEDIUM,
     (r"(?i:installed with version \S{1,20} but found|ResolutionImpossible|compiled with different CUDA"
     r"|the conflict is caused by|requires a different Python)|\bPackagesNotFoundError|UnsatisfiableError")),
    ("import-path", MEDIUM, r"EnvironmentLocationNotFound"),
    ("import-path framework-config", MEDIUM, r"Error locating target '"),
    ("config-syntax", MEDIUM, r"^ERROR: Invalid requirement: |contains DOS line breaks|not look like a batch script"),
    ("file-missing hub-access", MEDIUM,
     r"DataFilesNotFoundError|DatasetNotFoundError|HFValidationError: Repo id|\(404\) when calling the"),
    ("hub-access", MEDIUM, r"ClientAuthenticationError|^fatal: could not read (?:Username|Password) for"),
    ("hub-unreachable", MEDIUM, r"^error: RPC failed; curl|EndpointConnectionError"),
    ("container-image", MEDIUM, r"failed to solve: (?!process )\S{1,200}: (?:not found|failed to resolve)"),
    ("file-missing", MEDIUM,
     (r"[:\]] Read-only file system(?:$|: ')|^unzip: {1,3}cannot find"
     r"|^(?:bash|sh): (?:line \d{1,5}: )?\S{1,200}: Permission denied$")),
    ("launcher-config", MEDIUM, r"^Error from server \(NotFound\)|^Error: (?:INSTALLATION|UPGRADE) FAILED"),
    ("file-missing import-path", MEDIUM,
     (r"CommandNotFoundException|not recognized as (?:the name of a cmdlet|an internal or external)"
     r"|(?:^|[ :])(?:/usr/bin/)?env: .{1,200}: No such file or directory$")),
    ("file-missing", MEDIUM,
     (r"(?:^|[ :/])(?:bash|sh): [^ :]{1,200}: No such file or directory$"
      r"|^[\w+-]{2,20}: .{0,9}cannot \w+ (?!.{0,20}/run/).{0,300}: (?:Permission denied|No such file or directory"
      r"|Read-only.{5,20})$")),
    ("script-arguments", MEDIUM,
     (r"error: argument -\S{1,60}: |\.py: error: (?:Parser key|ambiguous option|one of the arguments)\b"
     r"|^Error: (?:Missing (?:option|argument|parameter)|Invalid value for) (?!.{1,200}does not exist)")),
    ("container-shm host-oom", MEDIUM, r"ObjectStoreFullError"),
    ("host-oom stopped-from-outside", MEDIUM, KILLED_CHILD),
    ("shared-cache-race", MEDIUM, r"\[Errno 26\]|Text file busy"),
    ("nproc", MEDIUM, r"(?i:thread creation failed)"),
    ("gpu-architecture", MEDIUM, r"NO_BINARY_FOR_GPU"),
    ("gpu-missing", MEDIUM, r"(?i:no supported devices found)"),
    ("ofi-provider", MEDIUM, r"\bOFI (?:addrinfo\(\)|endpoint open|domain open) failed"),
    ("program-error collective-mismatch", MEDIUM, r"(?i:message truncated)"),
    ("backend-missing", MEDIUM, r"NameError: name '\w{1,60}_(?:C|cuda|ext)' is not defined"),
    ("checkpoint-damaged", MEDIUM, r"could not parse ModelProto"),
    ("host-oom", MEDIUM, r"java\.lang\.OutOfMemoryError|Java(?:Script)? heap|of the memory on (?:the )?node\b"),
    ("library-mismatch", MEDIUM,
     (r"\.so\S{0,20}: file too short|libnvrtc-builtins|kernel image is invalid"
     r"|(?:was compiled to use|built with) \S{1,20} instructions")),
    ("library-mismatch gpu-memory", MEDIUM, r"unable to find an engine to execute|Failed to get convolution algorithm"),
    ("gpu-memory host-oom", MEDIUM, r"Failed to allocate \d{1,20} bytes"),
    ("device-placement", MEDIUM, r"Tensors must be CUDA and dense"),
    ("collective-mismatch", MEDIUM, r"(?i:mismatched collectives?\b)"),
    ("backend-missing env-syntax", MEDIUM, r"Unknown PJRT_DEVICE|PJRT_DEVICE \S{1,20} not"),
    ("parallel-layout", MEDIUM, r"in your SLURM bash script, but this number doesn't match"),
    ("framework-config", MEDIUM,
     (r"`accelerate\.prepare\(\)` requires|does not have a padding token|num_processes` must be"
     r"|Cannot flatten integer dtype|host:port are required|no algorithm/protocol avail|data is not allocated yet")),
    ("program-error", MEDIUM,
     (r"forward AD with|bool tensors is not supported|\bvmap\b"
     r"|grad can be implicitly created only|is a view and is being modified|a leaf Variable that requires grad"
     r"|truncation and/or padding|too many dimensions '|Attention mask should be of size")),
    ("program-error", MEDIUM,
     (r"daemonic processes are not allowed|only works in main thread|no current event loop in thread"
     r"|PicklingError|called ray\.init twice|Cannot replicate if number of devices"
     r"|(?i:runtime (?:is )?already initiali[sz]ed|\bnot (?:available|allowed) outside "
     r"|\b(?:must|can only) be (?:called|used) (?:outside|inside|(?:from )?within) )")),
)  # fmt: skip
"""Classes, confidence and form; the first that is in a message counts, and others that it admits follow."""
