"""Freed places go to whom they were freed for, before anybody else is asked.

A promise does not outlive its plan; a hold does, until a moment. At the start of a cycle the pods
that have one take (or are promised again) exactly that place, within limits and quotas. Whatever
no longer fits there waits its turn like everybody else.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.model.policy import Policy
from scheduler_service.planning import capacity_check, fragmentation, placement, tree
from scheduler_service.planning.board import Board, NodeSet
from scheduler_service.planning.placement import Placer
from scheduler_service.planning.tree import Chunk, Starting

TRIES: Final = 4
"""Orders that are tried; each one takes up first who found no place in the one before."""


def honour(board: Board) -> None:
    """Give held places to the pods they are held for; the most demanding groups first.

    Who shares a GPU or a slot with whom depends on the order. One in which somebody finds no place
    is tried again with those first, and at last with shared GPUs filled up before new ones.
    """
    places = _places(board)
    found = {group.key: group for pod in places if (group := board.ledger.group_of(pod))}
    rest = [group for group in found.values() if group.key not in board.set_aside]
    groups = sorted(rest, key=lambda group: _demand(board, group, places))
    policy = board.policy
    for number in range(TRIES):
        if number == TRIES - 1:
            board.policy = _packed(policy)
        mark = board.checkpoint()
        left_out = [group for group in groups if not _place_all(board, group, places)]
        board.rollback(mark)
        if not left_out:
            break
        groups = [*left_out, *(group for group in groups if group not in left_out)]
    for group in groups:
        while _start(board, group, places):
            board.commit("allocate", group.key)
    board.policy = policy


def _packed(policy: Policy) -> Policy:
    packed = "pack" if policy.placement.gpu == fragmentation.NAME else policy.placement.gpu
    placement = msgspec.structs.replace(policy.placement, gpu=packed, shared_gpu="pack")
    return msgspec.structs.replace(policy, placement=placement)


def _place_all(board: Board, group: Group, places: dict[int, int]) -> bool:
    """Place a group's held pods; say whether none is left."""
    while _start(board, group, places):
        pass
    state = board.ledger.pods.state
    return not any(pod in places and state[pod] == states.PENDING for pod in group.pods())


def _places(board: Board) -> dict[int, int]:
    """Return the pods that wait and have a hold, with the row of the node it is on."""
    ledger = board.ledger
    found: dict[int, int] = {}
    for hold in ledger.holds.values():
        pod, node = ledger.pods.row_of.get(hold.pod), ledger.nodes.row_of.get(hold.node)
        if pod is None or node is None or hold.until_ms <= board.now_ms:
            continue
        if ledger.pods.state[pod] == states.PENDING:
            found[pod] = node
    return found


def _demand(board: Board, group: Group, places: dict[int, int]) -> tuple[int, float, str]:
    ledger = board.ledger
    whole, most = 0, 0.0
    for pod in group.pods():
        if pod in places:
            shape, size = ledger.shape_of(pod), ledger.nodes.gpu_memory[places[pod]]
            whole = max(whole, shape.gpus)
            if shape.is_shared and size:
                most = max(most, shape.need_on(size) / size)
    return -whole, -most, group.key


def _start(board: Board, group: Group, places: dict[int, int]) -> bool:
    """Place what the group starts next, if some of it has a hold and all of it fits.

    Held pods come before the group's others, whatever their order is otherwise. Pods that start
    together with held ones go wherever there is room: alone they could not start. Where a topology
    binds them together, that is left to everybody's turn.
    """
    if not board.ledger.queues.runs_work(group.queue) or not tree.is_ready(group):
        return False
    chunk = Starting(board.ledger, group, first=places).next_chunk()
    if chunk is None or not _has_places(group, chunk, places):
        return False
    if capacity_check.chunk_exceeds(board, group, chunk) is not None:
        return False
    mark, placer = board.checkpoint(), Placer(board, group, board.all_nodes)
    if not all(_place(placer, pod, places.get(pod)) for pod in chunk.members()):
        board.rollback(mark)
        return False
    if placement.must_wait_whole(group):
        placement.make_wait(board, list(chunk.members()))
    return True


def _has_places(group: Group, chunk: Chunk, places: dict[int, int]) -> bool:
    """Say whether enough of a chunk has a hold: some of it, all where a topology binds it."""
    are_held = [pod in places for pod in chunk.members()]
    return all(are_held) if _is_bound_together(group) else any(are_held)


def _is_bound_together(group: Group) -> bool:
    """Say whether some part of the group must be in one domain."""
    parts = [group.model.gang]
    while parts:
        part = parts.pop()
        if part.topology is not None and part.topology.required_level is not None:
            return True
        parts.extend(part.children)
    return False


def _place(placer: Placer, pod: int, node: int | None) -> bool:
    board = placer.board
    leaf = board.ledger.pods.leaf[pod]
    if leaf is None:
        return False
    placer.nodes = board.all_nodes if node is None else NodeSet([node])
    bare = leaf.spec if leaf.spec.topology is None else replace(leaf.spec, topology=None)
    return placer.place(Chunk(bare, (pod,)))
