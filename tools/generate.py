"""`make generate`: files made from other files; with `--check`, tell which are out of date.

One row per generator: what it writes and the script, which takes `--check` itself.
"""

from __future__ import annotations

import subprocess
import sys

from tools.environment import PYTHON
from tools.progress import ROOT

GENERATORS: tuple[tuple[str, str], ...] = (
    ("labextension/src/api/schema.ts", "labextension/scripts/generate_schema.py"),
    ("kai_jupyter/hub/static/tokens.css", "tools/hub_style.py"),
)


def main() -> int:
    """Write the generated files, or only compare them; return 1 when one is out of date."""
    failed = [target for target, script in GENERATORS if not _passes(target, script)]
    return 1 if failed else 0


def _passes(target: str, script: str) -> bool:
    """Run one generator; with `--check` say what to do about a stale file."""
    if not (ROOT / script).exists():
        return True
    command = [str(PYTHON), script, *sys.argv[1:]]
    result = subprocess.run(command, cwd=ROOT, check=False)
    if result.returncode != 0:
        print(f"{target} is out of date or cannot be made: run `make generate`")
    return result.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
