"""The command `kai`: one table of commands, each imported when it is called.

Rule: no command decides or words anything that the service decides or words; it shows what the service says. What a
command prints to standard output is its answer (with `--json`: JSON alone); everything else goes to standard error.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run `kai` with the arguments of this process."""
    from scheduler_service.cli.commands import kai

    sys.exit(kai.main(prog_name="kai", standalone_mode=True))
