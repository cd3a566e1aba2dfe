"""Command groups that suggest the right command for a misspelt subcommand and for a line of another launcher."""

import difflib

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.model.pasted import LAUNCHERS
from pylaunch.model.text.argv import pylaunch
from pylaunch.terminal import console


class CommandGroup(click.Group):
    """A group that suggests similar names for a misspelt subcommand, and prints its help where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Without a subcommand, print the help and exit with 2."""
        if not args and not ctx.resilient_parsing:
            console.say(ctx.get_help())
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does. Raises UsageError for an unknown subcommand."""
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-")) and self.get_command(ctx, name) is None:
            raise UsageError(f"no such command: {ctx.command_path} {name}", hint=self._hint(ctx, args))
        return super().resolve_command(ctx, args)

    def _hint(self, ctx: click.Context, args: list[str]) -> str:
        """Return the command that takes the line of another launcher, or those with a similar name."""
        name = args[0]
        if any(" ".join(args).startswith(f"{launcher} ") for launcher in LAUNCHERS):
            return pylaunch("start", "--", *args)
        near = difflib.get_close_matches(name, self.list_commands(ctx), n=3)
        return (
            f"did you mean {' or '.join(f'{ctx.command_path} {each}' for each in near)}?"
            if near
            else f"{ctx.command_path} --help"
        )
