"""A real runner as a process of its own, for tests that kill it: URL TOKEN_FILE STATE_DIR LOST_AFTER_S."""

import sys
from pathlib import Path

from scheduler_service.runner.main import run_runner


def main(argv: list[str]) -> None:
    """Run until sent away."""
    url, token_file, state_dir, lost_after_s = argv
    run_runner(
        url=url,
        token_file=Path(token_file),
        state_dir=Path(state_dir),
        lost_after_s=float(lost_after_s),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
