"""What to do about one bind request: a table of cases, and what a failure does to its status. Pure.

Rules: 1. A pod that already stands where it was sent is a success, however it got there. 2. Nothing is said to be
bound that is not. 3. `failedAttempts` counts every failed try; a request without `backoffLimit` has one try.
4. A try that failed because the API was away is no try.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.pods import PodView
from scheduler_service.backends.kubernetes.binder.records import Request
from scheduler_service.backends.kubernetes.binder.work_queue import delay_s


@dataclass(frozen=True, slots=True)
class Leave:
    """There is nothing to do."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Make everything ready and bind."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The decision is void: delete it, so that a new one can be made."""

    why: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Nothing more can be done; say how it ended. `reason` is empty for a success."""

    reason: str = ""


Verdict = Leave | Bind | Withdraw | Settle


def verdict(request: Request, pod: PodView | None) -> Verdict:
    """Return what to do, for the pod as it is now (None: it is gone for sure)."""
    if request.is_leaving:
        return Leave()
    if pod is None or request.pod_uid not in {"", pod.uid}:
        return Withdraw("Its pod is gone.")
    if request.is_settled:
        return Leave()
    if pod.node:
        return Settle(_placed(request, pod))
    return _for_waiting(request, pod)


def _for_waiting(request: Request, pod: PodView) -> Verdict:
    if pod.is_leaving or pod.is_ended:
        return Settle("The pod is being deleted.")
    if not request.node:
        return Withdraw("It names no node.")
    if request.is_share and not request.groups:
        return Withdraw("It gives a share of a GPU and names no GPU.")
    return Bind()


def _placed(request: Request, pod: PodView) -> str:
    if pod.node == request.node:
        return ""
    return f"The pod already runs on node {pod.node}, not on {request.node}."


def status_after(request: Request, failure: str) -> dict[str, object]:
    """Return the request's status after a try: `failure` is empty for a success."""
    if not failure:
        return {
            "phase": names.PHASE_SUCCEEDED,
            "reason": "",
            "failedAttempts": request.failed_attempts,
        }
    return {
        "phase": names.PHASE_FAILED,
        "reason": failure,
        "failedAttempts": request.failed_attempts + 1,
    }


def retry_after_s(request: Request) -> float | None:
    """Return in how many seconds a failed try is made again; None where none is left.

    `request` is the one before the failure was counted.
    """
    failed = request.failed_attempts + 1
    if failed >= (request.backoff_limit or 0):
        return None
    return delay_s(failed, first_s=2.0)
