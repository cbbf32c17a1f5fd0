"""A real runner that is killed at one step of its work: URL TOKEN_FILE STATE_DIR LOST_AFTER_S STEP NUMBER MOMENT."""

import sys

from tests.fakes import killed_at, runner_process

if __name__ == "__main__":
    *others, step, number, moment = sys.argv[1:]
    killed_at.arm(f"runner.{step}", number, moment)
    runner_process.main(others)
