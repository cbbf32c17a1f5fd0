"""`python -m scheduler_service.simulate conformance DIR …`: the planner's commands alone."""

import argparse
import sys
from pathlib import Path

from scheduler_service.simulate import commands
from scheduler_service.simulate.conformance import Selection


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="scheduler_service.simulate", description=__doc__)
    kinds = parser.add_subparsers(dest="command", required=True)
    conformance = kinds.add_parser("conformance", help="run scenarios and fair-share tables")
    conformance.add_argument("dir", nargs="+", type=Path)
    conformance.add_argument("--json", action="store_true")
    for name in ("--run", "--tags", "--without-tags", "--kinds"):
        conformance.add_argument(name, action="append", default=[])
    conformance.add_argument("--policy", choices=("conformance", "default"), default="conformance")
    given = parser.parse_args(arguments)
    selection = Selection(
        run=commands.words_of(given.run),
        tags=commands.words_of(given.tags),
        without_tags=commands.words_of(given.without_tags),
        kinds=commands.words_of(given.kinds),
    )
    return commands.conformance(
        given.dir, selection=selection, policy=given.policy, as_json=given.json
    )


if __name__ == "__main__":
    sys.exit(main())
