"""`pylaunch completion`: the script that completes command lines in a shell."""

import click
from click.shell_completion import ShellComplete, get_completion_class

from pylaunch.terminal import console

EXAMPLES = """\b
Examples:
  eval "$(pylaunch completion bash)"
  pylaunch completion fish > ~/.config/fish/completions/pylaunch.fish
"""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes pylaunch in SHELL: verbs, options, values, hosts and runs.

    The startup file of the shell evaluates it: pylaunch help shell.
    """
    script = get_completion_class(shell)
    assert script is not None
    made = script(click.get_current_context().find_root().command, {}, "pylaunch", "_PYLAUNCH_COMPLETE")
    # That of click for bash starts a bash to ask for its version; the guide names the oldest one.
    console.data(ShellComplete.source(made))
