"""Command groups that suggest a name for a misspelt subcommand, and print their help where none is named."""

from __future__ import annotations

import difflib

import click

from pylaunch.cli import console
from pylaunch.errors import ExitCode, UsageError


class CommandGroup(click.Group):
    """A group that suggests similar names for a misspelt subcommand."""

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
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=3)
            meant = " or ".join(f"{ctx.command_path} {each}" for each in near)
            hint = f"did you mean {meant}?" if near else f"{ctx.command_path} --help"
            raise UsageError(f"no such command: {ctx.command_path} {name}", hint=hint)
        return super().resolve_command(ctx, args)
