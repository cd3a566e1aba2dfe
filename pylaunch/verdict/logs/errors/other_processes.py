"""Words of errors that only report another process, whose log holds the cause, and of own failures. Pure."""

import re

LONGEST = 1000
"""Characters of a message that are read."""

_REPORT = re.compile(
    r"(?i:exited unexpectedly|non-zero (?:exit|status)|exit(?:ed)? (?:code|status|with)|returned non-zero"
    r"|(?:see )?root cause above|see (?:the )?(?:\w+ )?(?:log|stack trace|error)s? (?:above|below)(?!\), is )"
    r"|worker.{0,30} died|actor died|engine core initialization failed"
    r"|child (?:process )?\w{0,10} ?(?:failed(?! to)|died|exited)|\branks? \S{1,40} failed to\b"
    r"|\b(?:pipe|pipeline|queue|stream) (?:\S{1,40} ){0,3}(?:closed unexpectedly|stopped|ended early)\b"
    r"|workers? (?:process )?(?:crashed|failure|failed to start)\b|failed to import docker image"
    r"|container start failed|(?:failed to become|did not (?:signal|become)) ready\b|nccl error (?:in|\d)"
    r"|received signal: sig|terminated with the following error)"
)
"""Words of a report that another process ended: the cause is in its log."""

_VICTIM = re.compile(
    r"(?i:connection (?:reset|closed|lost|aborted)|broken pipe|timed? ?out|heartbeat|\bpeer\b|remote process"
    r"|deadline[ _]exceeded"
    r"|\b\d{1,7}/\d{1,7} (?:ranks|processes|workers|nodes|peers) (?:have )?(?:joined|arrived|connected)"
    r"|\b(?:lost|no (?:answer|reply|response) from) (?:rank|worker|trainer|node)\b"
    r"|\b(?:rank|worker|trainer) ?\d{1,6} (?:has |was )?(?:left|lost|gone|disconnected|died|failed|exited|is gone)\b"
    r"|\b(?:other|remote) (?:end|side) (?:is|was|has)\b|\banother rank (?:failed|stopped|raised)\b"
    r"|\b(?:all_?reduce|all_?gather|broadcast|collective|barrier) (?:operation )?failed\b"
    r"|\b(?:server|master|coordinator|chief|head|scheduler|store) (?:is |has |was )?(?:gone|lost|unreachable|died)\b"
    r"|ConnectionPool\(host=.{1,300}connection refused|SIGTERM|SIGKILL|aborted due to)"
)
"""Words of a process that lost another one, or waited for it."""

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


def is_of_another(text: str) -> bool:
    """Return True for the error of a process that lost another one, or waited for it."""
    return _VICTIM.search(text[:LONGEST]) is not None


def is_report(text: str) -> bool:
    """Return True for an error that only reports the end of another process."""
    return _REPORT.search(text[:LONGEST]) is not None
