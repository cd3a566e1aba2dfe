"""Help of `start` with its options in groups, those that a newcomer needs first."""

import click

GROUPS = {
    "First": "inventory hosts sync nodes nproc_per_node env python max_restarts detach dry_run",
    "Where": "limit spares min_nodes port interface queue stale no_check skip start_timeout",
    "What": "framework module workdir",
    "Code and environment": "sync_exclude env_file secret",
    "Container": "container container_mount",
    "When it fails": "fallback grace node_timeout",
    "When it hangs": "on_hang hang_after no_rank_thread",
    "Following": "verbose as_json save_logs notify",
    "Slurm": "scheduler partition time sbatch_arg",
}
"""Headings with the parameters below them; a parameter of no group is below the last heading of all."""


class GroupedCommand(click.Command):
    """A command whose help shows its options below the headings of GROUPS."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group with its options in the order of GROUPS."""
        rows = {each.name: each.get_help_record(ctx) for each in self.get_params(ctx)}
        for heading, names in GROUPS.items():
            self._write(formatter, heading, [rows.pop(name, None) for name in names.split()])
        self._write(formatter, "Other", list(rows.values()))

    def _write(self, formatter: click.HelpFormatter, heading: str, found: list[tuple[str, str] | None]) -> None:
        shown = [row for row in found if row is not None]
        if shown:
            with formatter.section(heading):
                formatter.write_dl(shown)
