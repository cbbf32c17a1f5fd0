"""What should happen: statements of operations, and why everything else waits."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_service.model.claim import ClaimAllocation
from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.policy import Action
from scheduler_service.model.reasons import Reason
from scheduler_service.model.resources import Resources


class Bind(msgspec.Struct, frozen=True, gc=False, tag="bind"):
    """Put a pod on a node and its devices now. Whole GPUs are named where the node names them."""

    pod: str
    node: str
    devices: tuple[GpuShare, ...] = ()
    claims: tuple[tuple[str, ClaimAllocation], ...] = ()


class Pipeline(msgspec.Struct, frozen=True, gc=False, tag="pipeline"):
    """Promise a pod a place whose holder is leaving; `moved`: it runs elsewhere until then."""

    pod: str
    node: str
    devices: tuple[GpuShare, ...] = ()
    moved: bool = False


class Evict(msgspec.Struct, frozen=True, gc=False, tag="evict"):
    """Ask a pod to leave, and say why."""

    pod: str
    node: str
    reason: Reason


Operation = Bind | Pipeline | Evict


class Statement(msgspec.Struct, frozen=True, gc=False):
    """Operations that stand or fall together, made by `action` for `group`."""

    action: Action
    group: str
    operations: tuple[Operation, ...]

    @property
    def is_start(self) -> bool:
        """Whether it binds at least one pod."""
        return any(isinstance(operation, Bind) for operation in self.operations)


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """Why a group (or the rest of it) waits: the reasons of every action that looked at it.

    `position` is 1 + the groups before it in its queue, `overall` likewise over all.
    `not_before_ms`: no new try before this moment, where there is one.
    """

    group: str
    by_action: tuple[tuple[Action, tuple[Reason, ...]], ...]
    position: int = 1
    overall: int = 1
    not_before_ms: int | None = None

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """All reasons, in the order of the actions."""
        return tuple(reason for _, reasons in self.by_action for reason in reasons)

    @property
    def main_reason(self) -> Reason | None:
        """The reason to show first: that of the first action that has one."""
        return next(iter(self.reasons), None)


class Work(msgspec.Struct, frozen=True, gc=False):
    """How much was looked at; exact and repeatable, so tests can hold it down."""

    nodes_examined: int = 0
    groups_tried: int = 0
    victims_walked: int = 0
    simulations: int = 0
    journal_entries: int = 0


class Plan(msgspec.Struct, frozen=True, gc=False):
    """All statements of a cycle in order, and why the rest waits.

    `fair_shares`: each queue's fair share in this cycle. `stale`: groups below their minimum
    with the moment they were first seen so, for the next cycle. `wake_ms`: when time alone may
    change what is planned, if ever.
    """

    now_ms: int
    statements: tuple[Statement, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    fair_shares: Mapping[str, Resources] = {}
    stale: Mapping[str, int] = {}
    work: Work = Work()
    wake_ms: int | None = None

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of all statements, in order."""
        return tuple(op for statement in self.statements for op in statement.operations)
