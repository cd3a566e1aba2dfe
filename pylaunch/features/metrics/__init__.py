"""Live runs as Prometheus metrics: `pylaunch metrics`.

samples       numbers of the live runs of the records and of their nodes; nothing is stopped or recorded
exposition    samples as metrics of prometheus-client, and the server
command       `metrics`
"""

from pylaunch.terminal.doors import Verb

VERBS = {
    "metrics": Verb("pylaunch.features.metrics.command", "Serve live runs as metrics for Prometheus", after="gpus"),
}
