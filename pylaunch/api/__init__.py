"""Start and follow training runs from Python: what the `pylaunch` command does, as functions that print nothing.

    cluster = load_cluster("cluster.ini")              the hosts, as Ansible reads the inventory
    provision(cluster).raise_for_errors()              bring every host to its desired state
    check(cluster)                                     a Result: findings about all hosts
    run = start(cluster, Job(("train.py",), Framework.DIRECT, "/data/work"))
    run.wait().raise_for_failure()                     or run.events(), run.logs(), run.status(), run.stop()

    run = attach("7f3a9c01")                           the same handle, later or in another process

Cluster and Job are values; RunHandle is the only object with a life, and it is not the life of the run: agents on the
nodes run it, and it continues without this process unless the job says `ends_with_controller`. Functions block; call
them in threads (`asyncio.to_thread`) to wait for several. Every error is a PylaunchError with evidence and a hint.
"""

from pylaunch.api.functions import attach, check, load_cluster, provision, start
from pylaunch.api.run_handle import RankLine, RunHandle, WaitTimeoutError
from pylaunch.checks.check import Check
from pylaunch.checks.suite import Result
from pylaunch.errors import (
    ClusterNotReadyError,
    InventoryError,
    ProvisionError,
    PylaunchError,
    RunFailedError,
    UsageError,
)
from pylaunch.features.provision.convergence import ProvisionOptions
from pylaunch.features.provision.provisioning import ProvisionReport
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.job import Framework, OnHang
from pylaunch.model.job import JobSpec as Job
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import Event, EventKind
from pylaunch.model.secret import Secrets
from pylaunch.protocol.examination import RankView
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runs.events import AttemptEnded, RanksReleased
from pylaunch.runs.stacks import StacksReport
from pylaunch.runs.start import StartOptions
from pylaunch.runs.start_checks import at_start_checks
from pylaunch.runs.status import RunReport
from pylaunch.runs.stop import StopReport
from pylaunch.store.runs import UnknownRunError

__all__ = [
    "AttemptEnded",
    "Check",
    "Cluster",
    "ClusterNotReadyError",
    "Event",
    "EventKind",
    "Finding",
    "Framework",
    "Host",
    "InventoryError",
    "Job",
    "OnHang",
    "Outcome",
    "ProvisionError",
    "ProvisionOptions",
    "ProvisionReport",
    "PylaunchError",
    "RankEnd",
    "RankLine",
    "RankView",
    "RanksReleased",
    "Result",
    "RunFailedError",
    "RunHandle",
    "RunReport",
    "Secrets",
    "Severity",
    "StacksReport",
    "StartOptions",
    "Status",
    "StopReport",
    "UnknownRunError",
    "UsageError",
    "WaitTimeoutError",
    "at_start_checks",
    "attach",
    "check",
    "load_cluster",
    "provision",
    "start",
]
