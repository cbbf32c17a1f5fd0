"""Binds plain chunks: pods that ask for GPUs (or parts), CPU and memory, and nothing special.

They are most of what is ever placed, and what the general way would do for them comes down to
this: the best node, at once. Whatever is not plain here goes the general way, with the same
outcome; property tests compare both.
"""

from __future__ import annotations

from functools import partial

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.pods import Devices
from scheduler_service.ledger.shape import Shape
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.planning import devices, fragmentation, judge
from scheduler_service.planning.board import Board, Mark
from scheduler_service.planning.finder import Finder, finder_for
from scheduler_service.planning.placement import MANY
from scheduler_service.planning.tree import Chunk

BINDING = states.BINDING


def bind(board: Board, group: Group, chunk: Chunk, mark: Mark) -> bool:
    """Bind all pods of a chunk on free room, or change nothing: then the general way decides.

    A group that is bound by quotas or limits, or has promised pods, is not for here.
    """
    ledger = board.ledger
    if (
        chunk.children
        or chunk.sub_group.topology is not None
        or ledger.affinity_pods
        or ledger.queues.limited_paths[group.queue]
        or group.model.preemptibility is not Preemptibility.PREEMPTIBLE
        or group.leaf.counts[states.PIPELINED]
        or not group.is_flat
    ):
        return False
    shapes, shape_no = ledger.shapes.shapes, ledger.pods.shape
    finders = board.all_nodes.finders
    if len(chunk.pods) >= MANY:
        shape = ledger.shape_of(chunk.pods[0])
        if (
            is_plain(shape)
            and not shape.is_shared
            and judge.copies(board, shape, later=False) < len(chunk.pods)
        ):
            return False
    for pod in chunk.pods:
        number = shape_no[pod]
        shape = shapes[number]
        finder: Finder | None = finders.get(number)
        if finder is None:
            finder = finder_for(board, pod, board.all_nodes)
        found = finder.best() if is_plain(shape) else None
        ids: Devices | None = ()
        if found is not None and shape.is_shared:
            ids = shares_now(board, found[0], shape)
        if found is None or not found[1] or ids is None:
            board.rollback(mark)
            return False
        ledger.start(pod, BINDING, found[0], ids)
    return True


def is_plain(shape: Shape) -> bool:
    """Say whether resources alone decide where a pod of this shape is, and what it costs."""
    return not shape.extras and shape.is_plain and not shape.legacy_mig


def shares_now(board: Board, row: int, shape: Shape) -> Devices | None:
    """Return the GPUs of a node that a shared request takes, None if it has to wait for one."""
    spread, nodes = board.policy.placement.shared_gpu == "spread", board.ledger.nodes
    fresh = partial(board.fresh_devices, row)
    rank = fragmentation.device_rank(board, row, shape)
    choice = devices.choose(nodes, row, shape, spread=spread, fresh=fresh, rank=rank)
    return None if choice.waits else choice.devices
