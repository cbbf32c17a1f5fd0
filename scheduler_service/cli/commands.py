"""The table of commands and what every one of them does with an error: a sentence and an exit code."""

from __future__ import annotations

import importlib
from typing import Any

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("serve:serve", "Run the scheduler service of this machine."),
    "stop": ("stop:stop", "End the service; what runs goes on running."),
    "status": ("look:status", "Show the service and your requests."),
    "queues": ("look:queues", "Show the queues: quota, limit, fair share, who waits."),
    "nodes": ("look:nodes", "Show nodes and GPUs and who holds what."),
    "submit": ("submit:submit", "Run a command on a share of a GPU, or on several workers."),
    "forecast": ("ask:forecast", "Say when a request would start, before you make it."),
    "logs": ("logs:logs", "Show what a request printed."),
    "cancel": ("ask:cancel", "End or withdraw requests."),
    "extend": ("ask:extend", "Lengthen a lease."),
    "explain": ("explain:explain", "Say why a request waits and what would help."),
    "plan": ("explain:plan", "Show what the planner would do now, or for a snapshot."),
    "snapshot": ("explain:snapshot", "Save the ledger as a snapshot file."),
    "conformance": (
        "planner:conformance",
        "Run scenarios and fair-share tables against the planner.",
    ),
    "replay": ("planner:replay", "Plan a capture again and compare."),
    "simulate": ("planner:simulate", "Run a scenario or a trace under a virtual clock."),
    "runner": ("workers:runner", "Start and watch the processes of granted requests."),
    "webhook": ("webhook:webhook", "Judge what enters a cluster: pods, queues, pod groups."),
    "agent": ("workers:agent", "Report what the GPUs of this node do."),
    "binder": ("binder:binder", "In a cluster: carry out bind requests."),
    "reserve": ("binder:reserve", "In a reservation pod: hold its GPU and tell which."),
}

ELSEWHERE: dict[str, str] = {
    "doctor": "The doctor is `jupyter kai doctor`: it checks every link from the page to the devices.",
    "dashboard": "The page of a team's lead is `jupyter kai dashboard`.",
}
"""What people look for here and find elsewhere."""

EXIT_CODES = """\b
Exit codes:
  0    done
  1    the work failed, or something did not pass
  2    the command was not understood, or had nothing to do
  3    the service declined; its sentence says why
  4    no such request
  5    the service does not run or does not answer
  130  Ctrl-C; what was asked for goes on"""


class _Table(click.Group):
    """The commands by name. Their one-line help is in the table, so that `kai --help` imports none of them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the table's order."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"scheduler_service.cli.{module}"), attribute
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; what is elsewhere is told."""
        if args and args[0] in ELSEWHERE:
            from scheduler_service.cli.endings import USAGE, Ends

            raise Ends(USAGE, ELSEWHERE[args[0]])
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; errors that owe a sentence end as that sentence."""
        from scheduler_service.cli.endings import ending_of

        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            ending = ending_of(error)
            if ending is None:
                raise
            if ending.sentence:
                click.echo(ending.sentence, err=True)
            ctx.exit(ending.code)


def _version(ctx: click.Context, _parameter: click.Parameter, value: object) -> None:
    if value and not ctx.resilient_parsing:
        from scheduler_service.cli.output import version

        click.echo(f"kai {version()}")
        ctx.exit()


@click.command(
    cls=_Table, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Show the version.",
)
def kai() -> None:
    """Ask for a share of a GPU, see your place in the queue, run gangs."""
