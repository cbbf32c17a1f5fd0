"""Steps with a name, a clock and a log: what a person sees while a command works.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".build" / "logs"
TAIL_LINES = 40
TICK_S = 0.5


class StepError(Exception):
    """A step that ended badly; its text is the sentence for the person at the terminal."""


@contextmanager
def step(title: str) -> Iterator[None]:
    """Print the step's title now and how long it took when it ends."""
    start = time.monotonic()
    print(f"· {title} …", flush=True)
    yield
    print(f"  done in {time.monotonic() - start:.1f} s", flush=True)


def run(
    name: str,
    command: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run `command` with its output in a log file, a moving clock on a terminal meanwhile.

    Raises:
        StepError: with the end of the log, when the command exits with anything but 0.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            env=dict(os.environ if env is None else env),
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        _wait(process)
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        raise StepError(f"{tail}\n\n{name} failed (exit {process.returncode}); all of it: {log}")


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of `process`, showing the seconds where a person watches."""
    if not sys.stdout.isatty():
        process.wait()
        return
    start = time.monotonic()
    while True:
        try:
            process.wait(timeout=TICK_S)
        except subprocess.TimeoutExpired:
            print(f"\r  {time.monotonic() - start:.0f} s ", end="", flush=True)
        else:
            print("\r", end="", flush=True)
            return
