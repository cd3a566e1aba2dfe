"""Why a run failed, by its texts: log files of any launcher, or the record and the logs of a run (`explain`).

judgement/   pure: the first error by its form, the words of a log, where a silent log stands
work         reads the logs and judges them
log_files    files as they are found: compressed, cut, binary, in directories
words.txt    weights of the classifier over words, which benchmarks/train_classifier.py fits

The texts of failures that signatures know are judged in the core (`pylaunch/verdict/logs`), which names by them the
class of a failed rank's text.
"""

from pylaunch.terminal.doors import Verb, VerbGroup

VERBS = {
    "explain": Verb(
        "pylaunch.features.explain.command",
        "Show why a run failed, or why the logs of any launcher end",
        after="stacks",
        group=VerbGroup.DIAGNOSE,
    ),
}
