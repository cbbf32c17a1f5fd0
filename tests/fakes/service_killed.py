"""A real `kai` that is killed at one step of its work: STEP NUMBER MOMENT, then what `kai` is told."""

import sys

from scheduler_service.cli import main
from tests.fakes import killed_at

if __name__ == "__main__":
    program, step, number, moment, *others = sys.argv
    killed_at.arm(step, number, moment)
    sys.argv = [program, *others]
    main()
