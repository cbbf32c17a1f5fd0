"""What the API does not make, as the answer that the caller gets: code to status and title in one table.

The sentence comes with the case: why, and what to do next. The codes that `service` knows too mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_service.ports import NotAllowed, RefusedRequest
from scheduler_service.wire.problem import Problem

TITLES: Mapping[str, tuple[int, str]] = {
    "bad_amount": (422, "This amount is not possible"),
    "bad_variable": (422, "This variable is not possible"),
    "bad_folder": (422, "This folder is not possible"),
    "folder_needed": (422, "A folder is needed"),
    "image_needed": (422, "An image must be named"),
    "image_not_allowed": (403, "This image is not allowed"),
    "kind_not_installed": (422, "This kind of workload is not installed"),
    "name_taken": (409, "The name is taken"),
    "namespace_needed": (422, "A namespace must be named"),
    "namespace_not_open": (403, "This namespace is not open"),
    "not_in_a_cluster": (422, "Not in a cluster"),
    "not_your_queue": (403, "Not your queue"),
    "nothing_to_run": (422, "Nothing to run"),
    "pods_not_allowed": (403, "You may not make pods there"),
    "refused_by_cluster": (422, "The cluster refused it"),
    "rules_unreadable": (503, "The rules can not be read"),
    "too_many_workers": (422, "Too many workers"),
    "unknown_profile": (422, "There is no such profile"),
    "unknown_queue": (422, "There is no such queue"),
    "unsigned": (422, "The work is not signed"),
    "cluster_away": (503, "The cluster can not do this now"),
}
_FORBIDDEN = 403


def refusal(code: str, detail: str, hint: str, **facts: str | int | None) -> RefusedRequest:
    """Return the error for a code: `detail` says why, `hint` what to do next."""
    status, title = TITLES[code]
    problem = Problem(
        type=f"urn:kai:problem:{code}",
        title=title,
        status=status,
        detail=detail,
        hint=hint,
        code=code,
        facts=facts,
    )
    return NotAllowed(problem) if status == _FORBIDDEN else RefusedRequest(problem)
