"""Pods into the book: one at a time, or all of a snapshot with sums made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from scheduler_service.ledger import states
from scheduler_service.ledger.nodes import NO_NODE
from scheduler_service.ledger.shape import Shape
from scheduler_service.model.pod import Pod, PodState
from scheduler_service.model.pod_group import Preemptibility

if TYPE_CHECKING:
    from scheduler_service.ledger.groups import Leaf
    from scheduler_service.ledger.store import Ledger

ELSEWHERE = -2
"""The row of a node that is not there."""
MANY = 500
"""From so many pods on, passes over columns beat a loop."""
FEW_SHAPES = 16
_WAITS, _RUNS = states.PENDING, states.RUNNING
_PENDING, _RUNNING = PodState.PENDING, PodState.RUNNING
_PREEMPTIBLE, _SEMI = Preemptibility.PREEMPTIBLE, Preemptibility.SEMI_PREEMPTIBLE


def add_pod(ledger: Ledger, model: Pod) -> None:
    """Open a pod's row and book what it holds."""
    pods = ledger.pods
    key = model.key
    number = ledger.shapes.number_of(model, ledger.vetoes.get(key, ()))
    row = _open_row(ledger, key, model, number)
    pods.row_of[key] = row
    shape = ledger.shapes.shapes[number]
    if model.deleted_ms is not None:
        ledger.deleted[row] = None
    if model.state is PodState.PIPELINED:
        ledger.promised[row] = None
    if shape.node_affinity:
        ledger.nodes.mention(term.label for term in shape.node_affinity)
    if shape.pod_affinity or shape.pod_anti_affinity:
        ledger.affinity_pods[row] = None
    state = states.CODE_OF[model.state]
    if model.node is not None and states.HAS_PLACE[state]:
        node = ledger.nodes.open_row(model.node)
        ledger.move(row, state, node, device_ids(model, shape))
        pods.moved(row, NO_NODE)
    else:
        pods.state[row] = state
    group = ledger.groups.get(model.group)
    if group is None:
        ledger.orphans.setdefault(model.group, {})[row] = None
    else:
        ledger.join(row, group)


def _open_row(ledger: Ledger, key: str, model: Pod, number: int) -> int:
    pods = ledger.pods
    if pods.free_rows:
        row = pods.free_rows.pop()
        pods.keys[row], pods.models[row], pods.shape[row] = key, model, number
        pods.state[row], pods.node[row], pods.leaf[row] = states.GATED, NO_NODE, None
        pods.devices[row], pods.charge[row], pods.is_core[row] = (), 0, False
        return row
    pods.keys.append(key)
    pods.models.append(model)
    pods.shape.append(number)
    pods.state.append(states.GATED)
    pods.node.append(NO_NODE)
    pods.leaf.append(None)
    pods.devices.append(())
    pods.charge.append(0)
    pods.is_core.append(False)
    return len(pods.models) - 1


def device_ids(model: Pod, shape: Shape) -> tuple[str, ...]:
    """Return the ids of a placed pod's devices; a share without names gets its own."""
    if model.devices:
        return tuple(share.device for share in model.devices)
    if shape.is_shared:
        return tuple(f"unnamed:{model.key}:{index}" for index in range(shape.devices))
    return ()


def add_pods(ledger: Ledger, models: Iterable[Pod]) -> None:
    """Book many pods. Plain ones that wait or run are summed up by kind; the rest go one by one."""
    if ledger.vetoes or ledger.pods.free_rows:
        for model in models:
            add_pod(ledger, model)
        return
    plain = _Plain(ledger)
    rest = plain.take(list(models))
    plain.book()
    for model in rest:
        add_pod(ledger, model)


class _Plain:
    """Pods of few kinds: columns are written at once, sums made once a kind."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.models: list[Pod] = []
        self.shapes: list[int] = []
        self.nodes: list[int] = []
        self.leaves: list[Leaf] = []
        self.kinds: list[int] = []
        """What sums are made by: queue, shape, whether it runs, whether it may not be preempted."""
        self.waiting: list[str] = []
        """The groups of those that wait, as often as they have some."""

    def take(self, models: list[Pod]) -> list[Pod]:
        """Open rows for plain pods; return those that need to go the long way."""
        ledger, numbers = self.ledger, self.ledger.shapes.plain_numbers_of(models)
        first, size = len(ledger.pods.models), len(ledger.shapes.shapes)
        is_rare = [shape.is_rare for shape in ledger.shapes.shapes]
        group_of, row_of = ledger.groups.get, ledger.nodes.row_of
        shapes, nodes, leaves, kinds = self.shapes, self.nodes, self.leaves, self.kinds
        kept, rest = self.models, []
        for model, number in zip(models, numbers, strict=True):
            group, state = group_of(model.group), model.state
            leaf = None if group is None else group.leaf
            if group is not None and group.leaf.spec.name != model.sub_group:
                leaf = group.leaf_named(model.sub_group)
            node = NO_NODE if state is _PENDING else ELSEWHERE
            if state is _RUNNING:
                node = row_of.get(model.node or "", ELSEWHERE)
            if (
                number is None
                or group is None
                or leaf is None
                or node == ELSEWHERE
                or (node >= 0 and is_rare[number])
                or model.devices
                or (kind := group.model.preemptibility) is _SEMI
            ):
                rest.append(model)
                continue
            code = (group.queue * size + number) * 4
            if node >= 0:
                leaf.counts[_RUNS] += 1
                code += 2 if kind is _PREEMPTIBLE else 3
            else:
                leaf.counts[_WAITS] += 1
                self.waiting.append(group.key)
            leaf.pods.append(first + len(kept))
            kept.append(model)
            shapes.append(number)
            nodes.append(node)
            leaves.append(leaf)
            kinds.append(code)
        return rest

    def book(self) -> None:
        """Write the columns and book all that was counted."""
        self._write_columns()
        self._book_nodes()
        ledger, shapes = self.ledger, self.ledger.shapes.shapes
        for code, count in Counter(self.kinds).items():
            queue, number = divmod(code >> 2, len(shapes))
            if queue < 0:
                continue
            cpu, memory, gpu, mib = shapes[number].asked
            if code & 2:
                held = (cpu * count, memory * count, gpu * count)
                ledger.queues.add_allocated(queue, held, non_preemptible=bool(code & 1))
            else:
                asked = (cpu * count, memory * count, gpu * count, mib * count)
                ledger.queues.add_waiting(queue, asked, 1)
        for key, count in Counter(self.waiting).items():
            ledger.open_groups[key] = ledger.open_groups.get(key, 0) + count

    def _book_nodes(self) -> None:
        """Take what runs off the nodes: one by one, or shape by shape on their columns."""
        nodes, shapes = self.ledger.nodes, self.ledger.shapes.shapes
        size = len(shapes)
        if len(self.nodes) < MANY or size > FEW_SHAPES:
            pairs = zip(self.nodes, self.shapes, strict=True)
            places = [node * size + number for node, number in pairs if node >= 0]
            for place, count in Counter(places).items():
                nodes.book_many(place // size, shapes[place % size], count)
            return
        on, numbers = np.array(self.nodes), np.array(self.shapes)
        for number, shape in enumerate(shapes):
            rows = on[(numbers == number) & (on >= 0)]
            if len(rows):
                nodes.book_all(shape, np.bincount(rows, minlength=len(nodes)))

    def _write_columns(self) -> None:
        pods, count = self.ledger.pods, len(self.models)
        charges = [shape.charge_milli for shape in self.ledger.shapes.shapes]
        pairs = zip(self.nodes, self.shapes, strict=True)
        keys = [f"{model.namespace}/{model.name}" for model in self.models]
        first = len(pods.models)
        pods.row_of.update(zip(keys, range(first, first + count), strict=True))
        pods.keys += keys
        pods.models += self.models
        pods.shape += self.shapes
        pods.leaf += self.leaves
        pods.node += self.nodes
        pods.state += [_WAITS if node < 0 else _RUNS for node in self.nodes]
        pods.devices += [()] * count
        pods.charge += [0 if node < 0 else charges[number] for node, number in pairs]
        pods.is_core += [code & 1 == 1 for code in self.kinds]
