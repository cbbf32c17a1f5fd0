"""Nodes on which more runs, to begin with, than they have: what is planned there rests on a wrong picture."""

from collections.abc import Callable, Iterator

from scheduler_service.ledger.nodes import NodeTable
from scheduler_service.ledger.shape import MIG_PREFIX
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.quantities import bytes_words, cpu_words, mib_words
from scheduler_service.model.snapshot import Snapshot

MOST_TOLD = 5


def warnings(snapshot: Snapshot) -> list[str]:
    """Return a sentence for each node that begins overbooked, at most five and a sum."""
    nodes = Ledger.from_snapshot(snapshot).nodes
    found = [
        f"Warning: {nodes.name_of(row)} begins overbooked, by {', '.join(excess)}."
        for row in nodes.live_rows()
        if (excess := list(_excess(nodes, row)))
    ]
    if len(found) > MOST_TOLD:
        rest = len(found) - MOST_TOLD
        found[MOST_TOLD:] = [f"Warning: so are {rest} more nodes."]
    return found


def _excess(nodes: NodeTable, row: int) -> Iterator[str]:
    table: tuple[tuple[int, Callable[[int], str]], ...] = (
        (nodes.idle_gpu[row], lambda count: _counted(count, "GPU")),
        (nodes.idle_cpu[row], cpu_words),
        (nodes.idle_memory[row], lambda amount: f"{bytes_words(amount)} of memory"),
        (nodes.idle_slots[row], lambda count: _counted(count, "pod slot")),
    )
    yield from (words(-idle) for idle, words in table if idle < 0)
    yield from _on_shared(nodes, row)
    for name, amount in nodes.idle_extra[row].items():
        if amount < 0:
            yield f"{-amount} × {name.removeprefix(MIG_PREFIX)}"


def _on_shared(nodes: NodeTable, row: int) -> Iterator[str]:
    model = nodes.models[row]
    is_known = model is not None and model.gpu_memory_mib
    for device, share in nodes.shared[row].items():
        more = share.staying + share.leaving - nodes.size_of(row, device)
        if more > 0:
            yield f"{mib_words(more) if is_known else f'{more / 1000:g} GPU'} on {device}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
