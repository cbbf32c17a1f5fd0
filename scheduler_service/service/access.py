"""Who may see, ask and end what. Every method of the service asks here. Pure."""

from __future__ import annotations

from scheduler_service.ports import LEAD_PREFIX, NAMESPACE_PREFIX, READ, REQUEST, Caller
from scheduler_service.service.refusals import refusal
from scheduler_service.settings.queue_file import QueueConfig
from scheduler_service.settings.subjects import is_any_meant
from scheduler_service.store.records import GroupRecord


def require(caller: Caller, scope: str) -> None:
    """Raise `NotAllowed` unless the caller has `scope`."""
    if not caller.may(scope):
        raise refusal(
            "not_allowed",
            f"{caller.user} may not do this: it needs the right to {scope}.",
            "Ask whoever runs this service for it.",
            scope=scope,
        )


def require_read(caller: Caller) -> None:
    """Raise `NotAllowed` unless the caller may look."""
    require(caller, READ)


def require_request(caller: Caller) -> None:
    """Raise `NotAllowed` unless the caller may ask for devices and end what is theirs."""
    require(caller, REQUEST)


def leads(caller: Caller, queue: str) -> bool:
    """Whether the caller answers for the queue."""
    return caller.is_admin or f"{LEAD_PREFIX}{queue}" in caller.scopes


def sees(caller: Caller, record: GroupRecord) -> bool:
    """Whether the caller may see this group in full: its owner, its queue's lead, who sees the namespace, an admin."""
    return (
        record.owner == caller.user
        or leads(caller, record.queue)
        or sees_namespace(caller, record.namespace)
    )


def sees_namespace(caller: Caller, namespace: str) -> bool:
    """Whether the caller sees all that is in a namespace."""
    return caller.is_admin or f"{NAMESPACE_PREFIX}{namespace}" in caller.scopes


def sees_names(caller: Caller, queue: str, config: QueueConfig) -> bool:
    """Whether the caller sees who is in a queue."""
    return leads(caller, queue) or config.rules_of(queue).show_names


def may_submit(caller: Caller, queue: str, config: QueueConfig) -> bool:
    """Whether the queue takes requests of the caller."""
    return leads(caller, queue) or is_any_meant(
        config.rules_of(queue).subjects, caller.user, caller.groups
    )
