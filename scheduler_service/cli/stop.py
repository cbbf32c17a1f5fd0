"""`kai stop`: end the service of this state directory and wait until it is gone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from scheduler_service.cli.endings import FAILED, Ends
from scheduler_service.wire import locate

PATIENCE_S = 30.0
PAUSE_S = 0.05


@click.command()
@click.option(
    "--state-dir", type=click.Path(path_type=Path), help="Its state directory. [KAI_STATE_DIR]"
)
def stop(state_dir: Path | None) -> None:
    """End the service; what runs goes on running and is found again at the next start."""
    state = state_dir or locate.state_dir()
    lock = locate.read_lock(state)
    if lock is None:
        click.echo(f"No service runs for {state}.")
        return
    try:
        os.kill(lock.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise Ends(
            FAILED, f"The service (process {lock.pid}) belongs to another user; ask them."
        ) from None
    deadline = time.monotonic() + PATIENCE_S
    while locate.start_ticks(lock.pid) == lock.start_ticks:
        if time.monotonic() > deadline:
            raise Ends(
                FAILED,
                f"The service (process {lock.pid}) has not ended within {PATIENCE_S:.0f} s. "
                f"Its log is in {state}; 'kill -9 {lock.pid}' is safe: its state survives.",
            )
        time.sleep(PAUSE_S)
    click.echo("The service has ended. What runs goes on running; 'kai serve' finds it again.")
