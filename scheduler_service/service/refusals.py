"""Every refusal of the service in one table: code to status and title. The sentence comes with the case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from scheduler_service.errors import BackendError
from scheduler_service.ports import NotAllowed, NotFound, PayloadTooLarge, RefusedRequest
from scheduler_service.wire.problem import Problem

Facts = Mapping[str, str | int | None]

TITLES: Mapping[str, tuple[int, str]] = {
    "bad_gpu_amount": (422, "This GPU amount is not possible"),
    "bad_gpu_memory": (422, "This GPU memory is not possible"),
    "bad_devices": (422, "This number of devices is not possible"),
    "bad_cpu": (422, "This CPU amount is not possible"),
    "bad_memory": (422, "This memory amount is not possible"),
    "bad_name": (422, "This name is not possible"),
    "bad_variable": (422, "This variable is not possible"),
    "bad_time": (422, "This time is not possible"),
    "bad_priority": (422, "This priority is not possible"),
    "fraction_and_memory": (422, "GPU share and GPU memory exclude each other"),
    "gang_of_zero": (422, "A gang needs at least one worker"),
    "too_many_workers": (422, "Too many workers"),
    "bad_min_members": (422, "This minimum of workers is not possible"),
    "unknown_queue": (422, "There is no such queue"),
    "not_a_leaf_queue": (422, "This queue has queues below it"),
    "queue_needed": (422, "A queue must be named"),
    "over_limit": (422, "More than the queue may ever have"),
    "over_quota": (422, "More than the queue guarantees"),
    "never_fits": (422, "Cannot fit"),
    "nothing_to_run": (422, "Nothing to run"),
    "not_a_cluster": (422, "This is no cluster"),
    "process_gone": (422, "The process is not there"),
    "others_process": (403, "The process is somebody else's"),
    "unsigned": (422, "The work is not signed"),
    "unknown_payload": (422, "The payload is not there"),
    "reason_needed": (422, "A reason is needed"),
    "unknown_person": (422, "There is nobody of that name"),
    "bad_place": (422, "This place is not possible"),
    "bad_loan": (422, "This can not be lent"),
    "nothing_to_change": (409, "Nothing would change"),
    "too_many_live": (429, "Too many requests at a time"),
    "bad_filter": (422, "This filter is not known"),
    "no_end": (409, "Nothing to extend"),
    "is_over": (409, "It has ended already"),
    "not_a_lease": (409, "Only a lease can do this"),
    "other_kernel": (409, "The lease belongs to another kernel"),
    "no_companion": (404, "There is no companion"),
    "not_granted": (409, "No companion runs yet"),
    "no_capture": (404, "There is no capture"),
    "no_result": (404, "There is no result"),
    "not_found": (404, "Not found"),
    "not_allowed": (403, "Not allowed"),
    "not_your_queue": (403, "Not your queue"),
    "payload_too_large": (413, "The payload is too large"),
    "result_too_large": (413, "The result is too large"),
    "bad_result": (422, "The result is not whole"),
    "not_here": (501, "A cluster does not do this"),
    "made_elsewhere": (409, "It is ended where it was made"),
    "no_logs": (409, "The log can not be read"),
    "held_by_budget": (409, "A disruption budget does not allow it now"),
    "disk_full": (507, "The disk is full"),
    "backend_failed": (503, "The service can not do this now"),
}
_CLASSES: Mapping[int, type[RefusedRequest]] = {
    403: NotAllowed,
    404: NotFound,
    413: PayloadTooLarge,
}


def refusal(code: str, detail: str, hint: str, **facts: str | int | None) -> RefusedRequest:
    """Return the error for a code: `detail` says why, in numbers; `hint` what to do next."""
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
    return _CLASSES.get(status, RefusedRequest)(problem)


@contextmanager
def as_refusal() -> Iterator[None]:
    """Turn a failing disk or database into a refusal with its sentence."""
    try:
        yield
    except RefusedRequest:
        raise
    except BackendError as error:
        code = "disk_full" if "full" in error.what else "backend_failed"
        detail = f"{error.what} {error.why}".strip()
        raise refusal(code, detail, error.hint or "Try again in a moment.") from error


def not_found(namespace: str, name: str) -> RefusedRequest:
    """Return the one answer for what is not there and for what is not the caller's."""
    return refusal(
        "not_found",
        f"There is no request {namespace}/{name} that you may see.",
        "`kai status` lists yours; ended ones are forgotten after their retention.",
        namespace=namespace,
        name=name,
    )
