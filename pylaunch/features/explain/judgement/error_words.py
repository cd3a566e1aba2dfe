"""Words of errors, as expressions: those of levels, signals and failures.

Each expression is bounded: a line of any content is read in linear time.
"""

import re


def any_of(*forms: str, ignore_case: bool = False, words: bool = False) -> re.Pattern[str]:
    """Return the expression of any of `forms`; with `words` between limits of words."""
    every = "|".join(forms)
    return re.compile(rf"\b(?:{every})\b" if words else every, re.IGNORECASE if ignore_case else 0)


ERRNO = (
    "Operation not permitted", "No such file or directory", "No such process", "Interrupted system call",
    "Input/output error", "No such device", "Argument list too long", "Exec format error", "Bad file descriptor",
    "No child processes", "Resource temporarily unavailable", "Cannot allocate memory", "Permission denied",
    "Bad address", "Block device required", "Device or resource busy", "File exists", "Invalid cross-device link",
    "Not a directory", "Is a directory", "Invalid argument", "Too many open files", "Inappropriate ioctl for device",
    "Text file busy", "File too large", "No space left on device", "Illegal seek", "Read-only file system",
    "Too many links", "Numerical argument out of domain", "Numerical result out of range",
    "Resource deadlock avoided", "File name too long", "No locks available", "Function not implemented",
    "Directory not empty", "Too many levels of symbolic links", "Value too large for defined data type",
    "Remote I/O error", "Structure needs cleaning", "Protocol error", "Protocol not available",
    "Protocol not supported", "Message too long", "Operation not supported", "Address already in use",
    "Address family not supported by protocol", "Cannot assign requested address", "Network is down",
    "Network is unreachable", "No buffer space available", "Connection timed out", "Connection refused",
    "Host is down", "No route to host", "Stale file handle", "Transport endpoint is not connected",
    "Transport endpoint is already connected", "Disk quota exceeded", "Required key not available",
    "Key has expired", "Name or service not known", "Temporary failure in name resolution",
    "No address associated with hostname", "No data available",
)  # fmt: skip
"""Texts of errno and of getaddrinfo."""

ANCHORS = tuple(
    word.encode()
    for word in (
        *ERRNO,
        "rror", "ERR", "xception", "EXCEPTION", "atal", "FATAL", "CRIT", "critical", "panic", "PANIC", "EMERG",
        "ALERT", "SEVERE", "erminat", "egmentation", "bort", "illed", "fail", "Fail", "FAIL", "annot",
        "ould not", "ouldn't", "nable to", "enied", "efused", "imed out", "ssert", "NCCL WARN", "exited",
        "Exited", "xit code", "xit status", "xit_code", "return code", "SIGSEGV", "SIGBUS", "SIGKILL", "SIGABRT",
        "SIGILL", "SIGFPE", "SIGTERM", "core dumped", "eset by peer", "roken pipe", "nvalid", "ismatch",
        "ut of memory", "OOM", "oom-kill", "Xid", "Oops", "BUG:", "lockup", "o space", "died", "CANCELLED",
        "ot found", "ot Found", "o such", "nterrupt", "Quit", ".cc:", ".cpp:", ".cu:", ".go:", "ardware",
        "not responding", "provided but", "INVALID_A", "NOT_FOUND", "DENIED", "INTERNAL:", "UNIMPL", "ALREADY_EX",
        "OUT_OF_RANGE", "DATA_LOSS", "UNAUTHENT", "UNAVAILABLE:", "DEADLINE_EX", "ABORTED:", "xhausted", "EXHAUSTED",
        "Forbidden", "fallen", "Link ", "link is", "errno", "Errno", "ECONN", "nrecoverable", "corrupt", "xpired",
        "NotFound", "ermitted", "quota", "WARN Call", "llegal", "bus error", "closed by", "ndefined", "nbound",
        "roblem", "fault", "crash", "lost", "achine check", "achine Check",
    )
)  # fmt: skip
"""Literals that a line with the form of an error has, unless it is among the last ones of its log, which are kept."""

OF_ERRNO = re.compile(
    rf"(?:^|[:(\]\"'`] ?|failed with |errno ?[=:]? ?\d{{1,3}},? )(?:{'|'.join(ERRNO)})\b|\[?[Ee]rrno[ =:]{{1,2}}\d"
)
WARNS = any_of(
    r"(?:^|[\s:\]])(?:[\w.]{0,80}Warning|[Ww]arning|warn|WARN|note|hint|Note|info|debug):? ",
)  # fmt: skip
"""Words before a message that is no error."""

RELAYED = re.compile(
    r"(?:^|[\s:-] {0,3})(?:env|sudo|sh|bash|ssh|srun|mpirun): .{1,200}: "
    r"(?:No such file or directory|Permission denied)$"
)
"""Refusal of a program that a launcher prints as information."""

METRIC = any_of(
    r"\b(?!(?-i:Assertion|Index|Key|OS|Runtime|Type|Value)Error: )[\w/-]{0,40}(?:errors?|failed|failures?|timeouts?"
    r'|loss|exceptions?)\b[\"\x27]?(?: ?rate)? ?[:=] ?\[?[-+]?\d{1,12}(?:\.\d{0,12})?(?:e[-+]?\d{1,4})?%?(?=[\s,;)\]}|]'
    r"|$)(?! ?[:-] ?\w)",
    r"\b(?:0|no|zero|without(?: any)?) (?:\w{1,20} )?(?:errors?|failures?|failed|exceptions?|timeouts?)\b",
    r"\b(?:errors?|loss) \d{1,9}\.\d{1,9}\b",
    r"\b(?:error|fail(?:ure|ed)?(?!_precondition: )|exception|timeout|retry)[_-]\w{1,40}",
    r"\b\w{1,40}_(?:error|errors|failed|failure|exception|timeout)\b", r"\bout of bounds values ?: 0 OK\b",
    r"(?-i:  (?:errors?|failed)(?=  |$))",
    r"^\s{0,20}Lnk(?:Cap|Ctl|Sta)2?:\s",
    ignore_case=True,
)  # fmt: skip
"""Numbers of errors, names that only contain such a word, and headings of columns."""

SHELL = any_of(
    r": (?:line \d{1,6}: )?(?:command not found|not found|cannot execute(?: binary file| required)?"
    r"|bad interpreter|unbound variable|ambiguous redirect|(?:S|s)yntax error|is not recognized"
    r"|unrecognized option|invalid option|unexpected EOF|missing operand|too many arguments|event not found"
    r"|illegal option|not a valid identifier|bad substitution)\b",
)  # fmt: skip
"""Refusals of shells and of programs that read options."""

LAST_WORDS = any_of(
    r"\bterminate called (?:after|without|recursively)", r"\blibc\+\+abi: ", r"^(?:\S{1,80}: )?panic: ",
    r"\bpanicked at\b", r"^fatal error: ", r"Exception in thread ", r"Unhandled exception", r"Uncaught exception",
    r"Fatal Python error", r"\bCheck failed: ", r"\bAssertion\b.{0,300}\bfailed\b", r"\bassertion failed\b",
    r"INTERNAL ASSERT FAILED", r"\bstack smashing detected",
    r"\b(?:double free|free\(\): invalid|malloc\(\): |corrupted (?:size|double))", r"\bsymbol lookup error: ",
    r"undefined symbol: ", r"error while loading shared libraries: ", r"\bCaught signal \d",
    r"\bKernel panic\b",
    r"\b(?:Out of memory|Memory cgroup out of memory): Kill(?:ed)? process", r"\boom-kill(?:ing|er|:)",
    r"\bsegfault at\b", r"^={4} backtrace",
    r"general protection fault", r"\*\*\* (?:Aborted at|SIG[A-Z]{2,5}|Check failure)",
    r"\bunrecoverable\b", r"\bhas stopped unexpectedly\b",
)  # fmt: skip
"""Last words of a process, and of the kernel about it."""

SIGNAL = any_of(
    r"(?:^|: |\d {1,40})(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted"
    r"|Killed|Trace/breakpoint trap|Quit|Hangup|Stack fault|CPU time limit exceeded|File size limit exceeded"
    r"|Bad system call)(?: {1,60}\(core dumped\))?(?:$| {2,}|: \d|\.$)",
    r"\b(?:SIGSEGV|SIGBUS|SIGKILL|SIGILL|SIGFPE|SIGABRT|SIGXCPU|Process received signal)\b",
)  # fmt: skip
"""Signals that end a process, as shells and launchers print them."""

NAMED_ERROR = any_of(
    r"(?:^|[:\])|>*] {0,3})(?:[Ff]atal|FATAL|[Ee]rror|ERROR|[Ee]rr|ERR!|[Cc]ritical|E|\*\*\*)(?: (?!rate|bars?"
    r"|handl|log|messages?\b)[\w.'()/-]{1,40}){0,5}?(?: ?\(\S{1,20}\)| ?\[\S{1,20}\])?[:!] \S",
    r"--> Returned .{1,80} instead of \"Success\"",
    r"^(?:FAILED_PRECONDITION|INVALID_ARGUMENT|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|UNAUTHENTICATED|UNIMPLEMENTED"
    r"|INTERNAL|OUT_OF_RANGE|DATA_LOSS|RESOURCE_EXHAUSTED): [^\d\s]",
    r"(?:^|: )[\w.\[\]-]{1,200}: (?:Invalid|Required|Unsupported|Duplicate) value(?:: |$)",
    r"FullyQualifiedErrorId : ", r"\bundefined reference to `", r"^npm ERR!",
    r"^make(?:\[\d{1,3}\])?: \*\*\* ", r"\bError \d{1,4}$", r"^ninja: build stopped",
    r"\b(?:[Cc]uda|CUDA|HIP|hip|NCCL|nccl|cu\w{2,8}|MPI|gRPC|grpc)\w{0,20} (?:runtime )?(?:[Ee]rror|failure)\b",
)  # fmt: skip
"""A word such as error before a colon, at the beginning of a line or after another colon."""

KERNEL = any_of(
    r"^(?:<\d>)?\[ {0,8}\d{1,8}\.\d{3,6}\]", r"^\[(?:\w{3} ){2} ?\d{1,2} [\d:]{8} \d{4}\]",
    r"^\S{3,40}[ \d:]{0,14} (?:\S{1,80} )?kernel: ",
    r"^(?:NVRM|nvidia-nvswitch\d{1,3}|nvidia-modeset|EXT4-fs|XFS|BTRFS|EDAC|mce|pcieport|watchdog"
    r"|Lustre\w{0,5}|blk_update_request|Buffer I/O): ?",
    r"^(?:EXT4-fs|XFS|BTRFS|mlx[15]_core|pcieport|nvme|ahci|ata\d) ?\(",
)  # fmt: skip
"""Beginnings of the lines of kernels."""

KERNEL_FAILS = any_of(
    r"\berror", r"\bfail", r"\bfatal", r"assert", r"\bbug:", r"\boops", r"lockup", r"hung_task",
    r"blocked for more than", r"kill(?:ed)? process", r"segfault", r"timed? ?out", r"not responding",
    r"fallen off", r"stuck", r"remounting", r"i/o error", r"\bdown\b", r"corrupt", r"unrecover", r"hardware",
    r"\bxid\b", r"machine check", r"\bmismatch", r"taint.*call trace",
    ignore_case=True,
)  # fmt: skip
"""Words of a kernel about something that failed."""

FAILS = any_of(
    r"fail(?:ed|s|ure)?", r"cannot", r"can ?not", r"can't", r"could ?n[o']t", r"couldn't", r"unable to", r"denied",
    r"refused", r"refuses", r"abort(?:ed|ing|s)?", r"unreachable", r"timed out",
    r"time-?out (?:waiting|while|after|exceeded|expired)",
    r"did not (?:join|arrive|answer|respond)", r"expired", r"not enough", r"no space", r"no quota",
    r"\w{0,40}(?:resources?|pool|memory|quota)[ _](?:\w{1,10}[ _])?exhausted",
    r"on a different subnet", r"provided but not defined",
    r"exceed(?:ed|s)", r"corrupt(?:ed)?", r"crash(?:ed|es)?", r"illegal", r"mismatch(?:ed)?", r"invalid",
    r"unrecognized", r"unrecognised", r"not recognized", r"unsupported", r"not supported",
    r"does(?: not|n't) exist", r"not found", r"no such", r"undefined", r"out of (?:memory|range|bounds|resources?)",
    r"insufficient", r"must be", r"is required", r"are required", r"giving up", r"gave up", r"bailing out",
    r"exiting", r"abruptly", r"rejected",
    r"not (?:compiled|built) with", r"(?:module|driver) (?:is )?not loaded",
    r"not authori[sz]ed", r"(?:marking|setting)(?: node \S{1,60})? down",
    r"no longer available", r"already in use", r"died", r"dead",
    r"error", r"exception", r"broken", r"lost", r"stall(?:ed)?", r"deadlock", r"requires", r"stuck", r"evicted",
    r"duplicate", r"neither", r"disagree\w?", r"conflict\w{0,3}", r"unexpected(?:ly)?",
    r"too (?:open|old|new|small|large|long|many|few|big|short)", r"has changed", r"have changed", r"differs?",
    r"not equal", r"different values", r"unknown (?:flag|option|argument|command|filesystem|[A-Z_]+ ')",
    r"do(?:es)?(?: not|n't) know", r"has no attribute",
    r"not (?:initiali[sz]ed|available|allowed|found|enough|compatible)", r"problem", r"fault",
    r"(?:was|is|running) low on",
    ignore_case=True, words=True,
)  # fmt: skip
"""Words of a failure in a line without a level."""
