"""Situations from field reports that take a loop to write down; in YAML's short words."""

from pathlib import Path
from typing import Any

from scheduler_service.model.policy import Policy
from scheduler_service.simulate import reader, run, shorthand
from scheduler_service.simulate.reader import Scenario

HERE = Path(__file__)


def scenario(**parts: Any) -> Scenario:
    """Return a scenario of these parts, written as in a YAML file."""
    raw = {"id": "field", "suite": "field/built", "about": "built", **parts}
    return reader.scenario_of(HERE, shorthand.write_out(raw), Policy.conformance())


def failures(**parts: Any) -> list[str]:
    """Return what is not as expected in a scenario of these parts."""
    return run.failures(scenario(**parts))


def one_gpu_groups(prefix: str, queue: str, count: int, *, nodes: int = 0, start: int = 0) -> Any:
    """Return groups of one pod and one GPU, on node i mod `nodes` or (0) waiting."""
    return {
        f"{prefix}-{number:03d}": {"queue": queue, "gpus": 1, "created": start + number}
        | ({"running_on": f"n{number % nodes}"} if nodes else {})
        for number in range(count)
    }


def cycles(settle: int, steady: int) -> Any:
    """Return a run of so many cycles."""
    return {"action": "cycle", "settle_cycles": settle, "steady_cycles": steady}
