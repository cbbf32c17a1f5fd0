"""What Tab offers after `%gpu` and `%gang`: commands, options, queues and names. Never starts a service."""

from __future__ import annotations

from typing import Any

_GPU = ["release", "why", "extend", "status", "0.25", "0.5", "1"]
_GPU_OPTIONS = [
    "--memory",
    "--queue",
    "--wait",
    "--for",
    "--preemptible",
    "--priority",
    "--devices",
    "--name",
]
_GANG = ["ls", "show", "logs", "stop", "result", "why"]
_GANG_OPTIONS = [
    *("-n", "--gpu", "--memory", "--cpu", "--in", "--out", "--name", "--queue", "--for", "--wait"),
    *("--rank", "--preemptible", "--priority"),
]


def complete(shell: Any, event: Any) -> list[str]:
    """Return the completions for the line so far."""
    words = event.text_until_cursor.split()
    if event.symbol and words and words[-1] == event.symbol:
        words.pop()
    previous = words[-1] if words else ""
    is_gang = "gang" in event.command
    if previous == "--queue":
        return _queues(shell)
    if is_gang and previous in _GANG[1:]:
        return _gangs(shell)
    if previous in ("--in", "--out"):
        return sorted(name for name in shell.user_ns if not name.startswith("_"))
    return _GANG + _GANG_OPTIONS if is_gang else _GPU + _GPU_OPTIONS


def _client(shell: Any) -> Any:
    from kai_jupyter.finding import find_service
    from kai_jupyter.session import current

    find_service(start=False)
    return current(shell).client


def _queues(shell: Any) -> list[str]:
    from kai_jupyter.errors import KaiJupyterError

    try:
        return [q.name for q in _client(shell).queues() if q.is_leaf and q.may_submit]
    except KaiJupyterError:
        return []


def _gangs(shell: Any) -> list[str]:
    from kai_jupyter.errors import KaiJupyterError

    try:
        return [v.name for v in _client(shell).groups(mine=True).items if v.kind == "gang"]
    except KaiJupyterError:
        return []
