"""What a supervisor is to start, as it stands in ``start.json``. Rule: standard library only."""

from __future__ import annotations

from typing import Any, NamedTuple


class StartPlan(NamedTuple):
    """One pod's process and its bounds."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    heartbeat: str
    """A file whose change shows that the runner is alive."""
    lost_after_s: float = 600.0
    """The pod is ended when the heartbeat has not changed for so long."""
    grace_s: float = 15.0
    cores: tuple[int, ...] = ()
    """CPUs to stay on; empty = all."""
    data_bytes: int | None = None
    """Bound on the private memory of each process (RLIMIT_DATA)."""
    log_segment_bytes: int = 8 * 1024 * 1024
    log_segments: int = 4
    attempt: int = 1
    """2 = started once more, on other ports."""


def to_json(plan: StartPlan) -> dict[str, Any]:
    """Return the plan as it is written."""
    return plan._asdict()


def from_json(data: dict[str, Any]) -> StartPlan:
    """Return the plan that `to_json` wrote."""
    return StartPlan(**{**data, "argv": tuple(data["argv"]), "cores": tuple(data["cores"])})
