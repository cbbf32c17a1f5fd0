"""The nodes' columns: what is free now (`idle`), and what is free once leaving pods have left (`all`).

Rules of the book, for a pod on a node:
- it holds its place now (bound, running, releasing, stuck): taken from `idle`;
- it will hold it later (promised, bound, running, stuck; not releasing): taken from `all`.
A shared GPU and the slot of its reservation pod are held now while anybody on it holds now, and
later likewise. Device memory is in MiB where it is known, otherwise in thousandths.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scheduler_service.ledger import device_sizes
from scheduler_service.ledger.journal import Journal
from scheduler_service.ledger.node_rows import NodeRows
from scheduler_service.ledger.shape import MIG_PREFIX, UNKNOWN_MEMORY_UNITS, Shape
from scheduler_service.model.node import Node

IntColumn = np.ndarray[Any, np.dtype[np.int64]]
CLAIM_PREFIX = "claim:"
NO_NODE = -1


class Shared(NamedTuple):
    """What is on one shared GPU: `staying` holds now and later, `leaving` now, `promised` later."""

    staying: int = 0
    leaving: int = 0
    promised: int = 0


NOBODY = Shared()


class NodeTable(NodeRows):
    """Nodes by row. Free amounts may be negative where reality holds more than is offered."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self.journal = journal
        self.idle_gpu, self.all_gpu = array("q"), array("q")
        self.idle_cpu, self.all_cpu = array("q"), array("q")
        self.idle_memory, self.all_memory = array("q"), array("q")
        self.idle_slots, self.all_slots = array("q"), array("q")
        self.gpus = array("q")
        """Whole GPUs offered, those handed out through claims included."""
        self.gpu_memory = array("q")
        """Of each GPU: MiB, or thousandths where it is not known."""
        self.sizes, self.whole = device_sizes.no_rows()
        self.shared: list[dict[str, Shared]] = []
        self._most_room: dict[int, int] = {}
        """The most room on a shared GPU, of rows where that was asked for since they changed."""
        self.idle_extra: list[dict[str, int]] = []
        self.all_extra: list[dict[str, int]] = []
        self.legacy_mig: dict[int, int] = {}

    def columns(self) -> tuple[array[int], ...]:
        """Return the free columns, in pairs of idle and all."""
        return (
            self.idle_gpu,
            self.all_gpu,
            self.idle_cpu,
            self.all_cpu,
            self.idle_memory,
            self.all_memory,
            self.idle_slots,
            self.all_slots,
        )

    def open_rows(self, names: list[str]) -> None:
        """Add empty rows for nodes that are not there yet."""
        super().open_rows(names)
        nothing = bytes(8 * len(names))
        for column in (*self.columns(), self.gpus):
            column.frombytes(nothing)
        self.gpu_memory.extend([UNKNOWN_MEMORY_UNITS] * len(names))
        for tables in (self.shared, self.idle_extra, self.all_extra):
            tables.extend([{} for _ in names])

    def describe(self, row: int, node: Node | None, slices: dict[str, int]) -> None:
        """Set what the node offers, as if nobody were on it; None: the node is gone."""
        self._is_now(row, node, slices)
        gpus = cpu = memory = slots = 0
        extra: dict[str, int] = {}
        if node is not None:
            gpus, cpu = node.gpus, node.milli_cpu - node.foreign_milli_cpu
            memory = node.memory_bytes - node.foreign_memory_bytes
            slots = node.max_pods - node.foreign_pods
            if node.extended or node.mig or slices:
                extra = _extra(node, slices)
                gpus += sum(count for name, count in slices.items() if "gpu" in name.lower())
        self.idle_gpu[row] = self.all_gpu[row] = self.gpus[row] = gpus
        self.idle_cpu[row] = self.all_cpu[row] = cpu
        self.idle_memory[row] = self.all_memory[row] = memory
        self.idle_slots[row] = self.all_slots[row] = slots
        self.gpu_memory[row] = (node and node.gpu_memory_mib) or UNKNOWN_MEMORY_UNITS
        self._note_sizes(row, node)
        self.shared[row] = {}
        self._most_room.pop(row, None)
        self.idle_extra[row] = extra
        self.all_extra[row] = dict(extra) if extra else {}

    def describe_new(self, nodes: Sequence[Node], slices: dict[str, dict[str, int]]) -> None:
        """Add nodes none of which is there yet: plain ones by columns, the rest one by one."""
        first = len(self)
        self.open_rows([node.name for node in nodes])
        self.models[first:] = nodes
        gpus = array("q", [node.gpus for node in nodes])
        cpu = array("q", [node.milli_cpu - node.foreign_milli_cpu for node in nodes])
        memory = array("q", [node.memory_bytes - node.foreign_memory_bytes for node in nodes])
        slots = array("q", [node.max_pods - node.foreign_pods for node in nodes])
        for column, values in zip(
            self.columns(), (gpus, gpus, cpu, cpu, memory, memory, slots, slots), strict=True
        ):
            column[first:] = values
        self.gpus[first:] = gpus
        known = [node.gpu_memory_mib or UNKNOWN_MEMORY_UNITS for node in nodes]
        self.gpu_memory[first:] = array("q", known)
        self._number_from(first)
        for row, node in enumerate(nodes, first):
            if node.devices or node.extended or node.mig or (slices and node.name in slices):
                self.describe(row, node, slices.get(node.name, {}))

    def _note_sizes(self, row: int, node: Node | None) -> None:
        """Note the memory of each GPU where they differ; parts are then judged GPU by GPU."""
        self.sizes.pop(row, None)
        self.whole.pop(row, None)
        known = device_sizes.sizes_of(node)
        if known:
            self.sizes[row], self.whole[row] = known, {}
            self.gpu_memory[row] = min(known.values())

    def size_of(self, row: int, device: str) -> int:
        """Return the memory of one GPU of a node, in MiB or thousandths."""
        sizes = self.sizes.get(row) if self.sizes else None
        return self.gpu_memory[row] if sizes is None else sizes.get(device, self.gpu_memory[row])

    def take_whole(self, row: int, devices: tuple[str, ...], part: Part) -> None:
        """Note by name who has GPUs whole, where GPUs differ."""
        table = self.whole.get(row)
        if table is not None:
            for device in devices:
                now, later = table.get(device, (0, 0))
                self.journal.put(table, device, (now + part.now, later + part.later))

    # -- booking ----------------------------------------------------------------------------

    def note(self, row: int) -> None:
        """Journal what is free on a node, before it changes; it counts as touched."""
        journal = self.journal
        old = (
            self.idle_gpu[row],
            self.all_gpu[row],
            self.idle_cpu[row],
            self.all_cpu[row],
            self.idle_memory[row],
            self.all_memory[row],
            self.idle_slots[row],
            self.all_slots[row],
        )
        journal.entries.append((self, row, old))
        journal.touched.append(row)

    def __setitem__(self, row: int, old: tuple[int, ...]) -> None:
        """Put back what `note` journaled."""
        (
            self.idle_gpu[row],
            self.all_gpu[row],
            self.idle_cpu[row],
            self.all_cpu[row],
            self.idle_memory[row],
            self.all_memory[row],
            self.idle_slots[row],
            self.all_slots[row],
        ) = old
        self.journal.touched.append(row)
        self._most_room.pop(row, None)

    def most_room(self, row: int) -> int:
        """Return the most room that a GPU of a node has beside who shares it in the end; -1: none."""
        most = self._most_room.get(row)
        if most is None:
            most, size = -1, self.gpu_memory[row]
            for staying, _, promised in self.shared[row].values():
                stays = staying + promised
                if stays > 0 and size - stays > most:
                    most = size - stays
            self._most_room[row] = most
        return most

    def book(self, row: int, shape: Shape, devices: tuple[str, ...], part: Part) -> None:
        """Take (or, with a negative part, give back) what a pod of this shape has on a node."""
        idle_gpu, all_gpu = self.idle_gpu, self.all_gpu
        idle_cpu, all_cpu = self.idle_cpu, self.all_cpu
        idle_memory, all_memory = self.idle_memory, self.all_memory
        idle_slots, all_slots = self.idle_slots, self.all_slots
        old = (
            idle_gpu[row],
            all_gpu[row],
            idle_cpu[row],
            all_cpu[row],
            idle_memory[row],
            all_memory[row],
            idle_slots[row],
            all_slots[row],
        )
        self.journal.entries.append((self, row, old))
        self.journal.touched.append(row)
        now, later = part
        cpu, memory, gpus = shape.milli_cpu, shape.memory_bytes, shape.gpus
        if now:
            idle_gpu[row] = old[0] - gpus * now
            idle_cpu[row] = old[2] - cpu * now
            idle_memory[row] = old[4] - memory * now
            idle_slots[row] = old[6] - now
        if later:
            all_gpu[row] = old[1] - gpus * later
            all_cpu[row] = old[3] - cpu * later
            all_memory[row] = old[5] - memory * later
            all_slots[row] = old[7] - later
        if shape.is_rare:
            self._book_rare(row, shape, devices, part)
        elif devices and self.whole:
            self.take_whole(row, devices, part)

    def book_many(self, row: int, shape: Shape, count: int, *, now: bool = True) -> None:
        """Take what `count` plain pods of a shape hold on a node, now and later or only later."""
        self.note(row)
        gpus, cpu, memory = shape.gpus * count, shape.milli_cpu * count, shape.memory_bytes * count
        if now:
            self.idle_gpu[row] -= gpus
            self.idle_cpu[row] -= cpu
            self.idle_memory[row] -= memory
            self.idle_slots[row] -= count
        self.all_gpu[row] -= gpus
        self.all_cpu[row] -= cpu
        self.all_memory[row] -= memory
        self.all_slots[row] -= count

    def book_all(self, shape: Shape, counts: IntColumn) -> None:
        """Take what so many plain pods of a shape hold, row by row, while a book is opened."""
        pairs = (
            (self.idle_gpu, self.all_gpu, shape.gpus),
            (self.idle_cpu, self.all_cpu, shape.milli_cpu),
            (self.idle_memory, self.all_memory, shape.memory_bytes),
            (self.idle_slots, self.all_slots, 1),
        )
        for idle, later, amount in pairs:
            if amount:
                for column in (idle, later):
                    values = np.frombuffer(column, dtype=np.int64)
                    values -= counts * amount

    def _book_rare(self, row: int, shape: Shape, devices: tuple[str, ...], part: Part) -> None:
        if shape.extras:
            self._book_extras(row, shape.extras, part)
        if devices and shape.is_shared:
            self._book_shared(row, shape, devices, part)
        if shape.legacy_mig and part.now:
            self.journal.put(self.legacy_mig, row, self.legacy_mig.get(row, 0) + part.now)

    def _book_extras(self, row: int, extras: tuple[tuple[str, int], ...], part: Part) -> None:
        for sign, table in ((part.now, self.idle_extra[row]), (part.later, self.all_extra[row])):
            if sign:
                for name, amount in extras:
                    self.journal.put(table, name, table.get(name, 0) - amount * sign)

    def _book_shared(self, row: int, shape: Shape, devices: tuple[str, ...], part: Part) -> None:
        table, need = self.shared[row], shape.need_on(self.gpu_memory[row])
        is_mixed = row in self.sizes
        for device in devices:
            if is_mixed:
                need = shape.need_on(self.size_of(row, device))
            old = table.get(device, NOBODY)
            staying, leaving, promised = old
            if part.now and part.later:
                staying += need * part.now
                if part.now != part.later:
                    msg = "a pod stays or leaves, not both"
                    raise AssertionError(msg)
            elif part.now:
                leaving += need * part.now
            else:
                promised += need * part.later
            self._set_shared(row, device, old, Shared(staying, leaving, promised))

    def turn(self, row: int, shape: Shape, devices: tuple[str, ...], sign: int) -> None:
        """Change a staying pod to a leaving one (sign 1), or back (-1); it holds its place now."""
        self.note(row)
        self.all_gpu[row] += shape.gpus * sign
        self.all_cpu[row] += shape.milli_cpu * sign
        self.all_memory[row] += shape.memory_bytes * sign
        self.all_slots[row] += sign
        if shape.extras:
            self._book_extras(row, shape.extras, Part(0, -sign))
        if devices and shape.is_shared:
            table = self.shared[row]
            for device in devices:
                need = shape.need_on(self.size_of(row, device)) * sign
                old = table.get(device, NOBODY)
                new = Shared(old.staying - need, old.leaving + need, old.promised)
                self._set_shared(row, device, old, new)
        elif devices and self.whole:
            self.take_whole(row, devices, Part(0, -sign))

    def charge_of(self, row: int, shape: Shape, devices: tuple[str, ...]) -> int:
        """Return what queues are charged for a request on these devices, claims apart."""
        if not shape.pending_mib or row not in self.sizes:
            return shape.charge_on(self.gpu_memory[row])
        each = (shape.charge_on(self.size_of(row, device)) for device in devices)
        return sum(each) // shape.devices

    def turn_many(self, row: int, shape: Shape, count: int) -> None:
        """Change so many staying pods of a plain shape to leaving ones."""
        self.note(row)
        self.all_gpu[row] += shape.gpus * count
        self.all_cpu[row] += shape.milli_cpu * count
        self.all_memory[row] += shape.memory_bytes * count
        self.all_slots[row] += count

    def promise_nobody(self, row: int, device: str, more: int) -> None:
        """Take so much of a GPU that somebody shares as promised (or, negative, give it back)."""
        self.note(row)
        old = self.shared[row][device]
        new = Shared(old.staying, old.leaving, old.promised + more)
        self._set_shared(row, device, old, new)

    def _set_shared(self, row: int, device: str, old: Shared, new: Shared) -> None:
        """Put a shared GPU's sums, and move it with its reservation slot in and out of the book.

        The row's free columns are noted already.
        """
        self.journal.put(self.shared[row], device, new)
        self._most_room.pop(row, None)
        now = (new.staying + new.leaving > 0) - (old.staying + old.leaving > 0)
        later = (new.staying + new.promised > 0) - (old.staying + old.promised > 0)
        if now:
            self.idle_gpu[row] -= now
            self.idle_slots[row] -= now
        if later:
            self.all_gpu[row] -= later
            self.all_slots[row] -= later

    def book_claim(self, row: int, device_class: str, count: int, part: Part) -> None:
        """Take (or give back) the devices of a claim; GPUs among them are GPUs of the node."""
        self.note(row)
        if "gpu" in device_class.lower():
            for sign, column in ((part.now, self.idle_gpu), (part.later, self.all_gpu)):
                if sign:
                    self.journal.set(column, row, column[row] - count * sign)
        self._book_extras(row, ((CLAIM_PREFIX + device_class, count),), part)


class Part(NamedTuple):
    """Which of a pod's two holds is booked: +1 takes, -1 gives back, 0 leaves alone."""

    now: int
    later: int


BOUND_PART, PROMISED_PART = Part(1, 1), Part(0, 1)
"""What is taken for a pod that is bound, and for one that is promised a place."""


def _extra(node: Node, slices: dict[str, int]) -> dict[str, int]:
    """Return what a node offers beside GPUs, CPU, memory and slots, by name."""
    extra = dict(node.extended)
    extra |= {f"{MIG_PREFIX}{profile}": count for profile, count in node.mig.items()}
    return extra | {CLAIM_PREFIX + name: count for name, count in slices.items()}
