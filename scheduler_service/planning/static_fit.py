"""Whether a pod may be on a kind of node at all: labels, taints, roles, GPU type. Never changes.

Returns words (for `NoMatchingNode`) or None. Nodes of one class answer alike, so each shape asks
once a class; vetoes name single nodes and are looked at apart.
"""

from __future__ import annotations

from scheduler_service.ledger.nodes import NodeTable
from scheduler_service.ledger.shape import MEMORY, MIG, NO_GPU, Shape
from scheduler_service.model.node import MigStrategy, Node, Taint
from scheduler_service.model.policy import Policy

UNKNOWN_GPU_MEMORY = "the memory of their GPUs is not known"
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})


def unfit(nodes: NodeTable, row: int, shape: Shape, policy: Policy) -> str | None:
    """Return why this shape can never be on nodes of this row's class, or None."""
    node = nodes.models[row]
    if node is None:
        return "they are gone"
    if not node.ready:
        return "they take no new work"
    return (
        _labels(node, shape)
        or _taints(node, shape)
        or _role(node, shape, policy)
        or _gpu_type(node, shape, has_claimable_gpus=has_claimable_gpus(nodes, row))
    )


def vetoed(node: str, shape: Shape) -> str | None:
    """Return the backend's word against this node, or None."""
    for veto in shape.vetoes:
        if veto.nodes is None or node in veto.nodes:
            return veto.why
    return None


def has_claimable_gpus(nodes: NodeTable, row: int) -> bool:
    """Say whether GPUs of this node are handed out through claims."""
    return any("gpu" in name.lower() for name in nodes.claimable.get(row, ()))


def _labels(node: Node, shape: Shape) -> str | None:
    for term in shape.node_affinity:
        if term.weight is None and node.labels.get(term.label) not in term.values:
            return f"none has the label {term.label}={' or '.join(term.values)}"
    return None


def _taints(node: Node, shape: Shape) -> str | None:
    for taint in node.taints:
        if taint.effect in _KEEPS_AWAY and not _is_tolerated(taint, shape):
            return f"the taint {taint.key} is not tolerated"
    return None


def _is_tolerated(taint: Taint, shape: Shape) -> bool:
    return any(
        toleration.key in {"", taint.key}
        and toleration.value in {None, taint.value}
        and toleration.effect in {None, taint.effect}
        for toleration in shape.tolerations
    )


def _role(node: Node, shape: Shape, policy: Policy) -> str | None:
    if not policy.restrict_node_roles:
        return None
    wanted = "cpu" if shape.kind == NO_GPU and not shape.claims else "gpu"
    if node.role != wanted:
        return f"they are not for {wanted.upper()} work"
    return None


def _gpu_type(node: Node, shape: Shape, *, has_claimable_gpus: bool) -> str | None:
    if shape.legacy_mig:
        return "MIG in the old annotation style is not placed"
    if shape.kind == NO_GPU:
        return None
    if shape.kind == MIG or node.mig_strategy is not None:
        return _mig_node(node.mig_strategy, shape)
    if has_claimable_gpus:
        return "their GPUs are handed out through claims"
    return UNKNOWN_GPU_MEMORY if shape.kind == MEMORY and not node.gpu_memory_mib else None


def _mig_node(strategy: MigStrategy | None, shape: Shape) -> str | None:
    """Return why slices, whole GPUs or parts can not be had on a node, by its MIG strategy."""
    if shape.kind == MIG:
        return "they offer whole GPUs only" if strategy == "single" else None
    if strategy == "mixed":
        return "they offer MIG slices only"
    return "they do not share their GPUs" if shape.is_shared else None


def preference(node: Node, shape: Shape) -> int:
    """Return the weight of the preferred labels that a node has."""
    return sum(
        term.weight
        for term in shape.node_affinity
        if term.weight is not None and node.labels.get(term.label) in term.values
    )
