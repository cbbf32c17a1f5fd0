"""What the planner does only with many nodes or many pods, done with few: the plan is the same."""

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler_service.model.plan import Plan
from scheduler_service.planning import dealing, finder, placement, plain
from tests.properties.clusters import Cluster
from tests.properties.exactness import planned

BOUNDS = (
    (finder, "VECTOR_FROM"),
    (placement, "FEW"),
    (placement, "MANY"),
    (plain, "MANY"),
    (dealing, "MANY"),
)
NEVER = 1 << 60


@contextmanager
def from_size(size: int) -> Iterator[None]:
    """Take the ways for many from so many nodes or pods on."""
    usual = [getattr(module, name) for module, name in BOUNDS]
    for module, name in BOUNDS:
        setattr(module, name, size)
    try:
        yield
    finally:
        for (module, name), value in zip(BOUNDS, usual, strict=True):
            setattr(module, name, value)


def differs_for_many(cluster: Cluster) -> bool:
    """Return whether the ways for many decide otherwise than those for few, or say something else."""
    return _plan(cluster, 1) != _plan(cluster, NEVER)


def _plan(cluster: Cluster, size: int) -> tuple[object, ...]:
    with from_size(size):
        made: Plan = planned(cluster.snapshot, cluster.policy)
    return made.statements, made.waiting
