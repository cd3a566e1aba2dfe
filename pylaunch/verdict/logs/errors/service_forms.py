"""Forms of errors of services that a run needs: clouds, Kubernetes, registries, package managers, Ray's store. Pure."""

from pylaunch.model.diagnosis.confidence import Confidence

MEDIUM = Confidence.MEDIUM

OUTSIDE = (
    r"HTTPS?ConnectionPool\(host='[\w.-]{1,80}\.(?:ai|cn|co|com|dev|io|net|org)'"
    r"|ailed to connect to [\w.-]{1,80}\.(?:ai|cn|co|com|dev|io|net|org) port (?:80|443)\b"
)
"""Words of a server on the Internet that does not answer."""

OF_SERVICES: tuple[tuple[str, Confidence, str], ...] = (
    ("resources-missing", MEDIUM,
     (r"LimitExceeded\) when calling|RESOURCE_POOL_EXHAUSTED|(?i:does not have enough resources available"
     r"|insufficient ?\w{0,10} ?capacity|no quota for|quota\b.{0,80}\b(?:region|zone)s?\b"
     r"|quota '\w{1,60}' exceeded|no resource satisfying|any instances satisfying)")),
    ("hub-access", MEDIUM,
     (r"HttpError 40[13]\b|IAM_PERMISSION|\bis forbidden: User\b|Forbidden: 403|<Response \[40[13]\]>"
     r"|(?i:permission '\S{1,80}' denied)")),
    ("launcher-config", MEDIUM,
     r"admission webhook \"[\w./-]{1,120}\" denied the request|WRONGPASS|redis\.\w{1,20}\.AuthenticationError"),
    ("coordinator-unreachable launcher-config", MEDIUM,
     r"Kubernetes cluster unreachable|connection to the server \S{1,120} was refused"),
    ("container-start", MEDIUM, r"(?i:connect to the docker daemon)"),
    ("package-mismatch", MEDIUM,
     (r"(?i:installed with version \S{1,20} but found|ResolutionImpossible|the conflict is caused by"
     r"|requires a different Python)")),
    ("import-path", MEDIUM, r"EnvironmentLocationNotFound|(?i:not been properly configured to use 'conda)"),
    ("file-missing import-path", MEDIUM,
     r"(?:^|[ :])(?:/usr/bin/)?(?:env|bash|sh): .{1,200}: No such file or directory$"),
    ("script-arguments", MEDIUM, r"error: argument -\S{1,60}: "),
    ("container-shm host-oom", MEDIUM, r"ObjectStoreFullError"),
    ("nproc", MEDIUM, r"(?i:thread creation failed)"),
    ("gpu-architecture", MEDIUM, r"NO_BINARY_FOR_GPU"),
    ("gpu-missing", MEDIUM, r"(?i:no supported devices found)"),
    ("ofi-provider", MEDIUM, r"\bOFI addrinfo\(\) failed"),
    ("program-error collective-mismatch", MEDIUM, r"(?i:message truncated)|MPI_ERR_TRUNCATE"),
    ("backend-missing", MEDIUM, r"NameError: name '\w{1,60}_(?:C|cuda|ext)' is not defined"),
    ("framework-config", MEDIUM, r"Error: .{0,80}\b(?:currently )?only supports (?!Ampere|Hopper|Turing|Blackwell)"),
    ("checkpoint-damaged", MEDIUM, r"could not parse ModelProto"),
    ("program-error", MEDIUM, r"daemonic processes are not allowed|PicklingError|called ray\.init twice"),
)  # fmt: skip
"""Classes, confidence and form of the errors of such services, and of tools that ask them."""
