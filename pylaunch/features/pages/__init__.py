"""The guides and the reference of this installation (`help`). No other verb needs them.

reference   fills pages in with the data that they name: options, checks, signatures, variables of roles
command     `help`
"""

from pylaunch.terminal.doors import Verb

VERBS = {
    "help": Verb("pylaunch.features.pages.command", "Print a page of the guides and of the reference", after="clean"),
}
