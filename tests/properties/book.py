"""The book written out by name: equal images mean that two ledgers hold the same numbers."""

from __future__ import annotations

from scheduler_service.ledger.nodes import Shared
from scheduler_service.ledger.store import Ledger

NOBODY = Shared()


def image(ledger: Ledger) -> dict[str, object]:
    """Return every number of the book by name; row numbers play no part."""
    nodes, queues, pods = ledger.nodes, ledger.queues, ledger.pods
    return {
        "nodes": {
            name: (
                tuple(column[row] for column in nodes.columns()),
                {k: v for k, v in sorted(nodes.shared[row].items()) if v != NOBODY},
                {k: v for k, v in sorted(nodes.idle_extra[row].items()) if v},
                {k: v for k, v in sorted(nodes.all_extra[row].items()) if v},
            )
            for name, row in sorted(nodes.row_of.items())
            if nodes.models[row] is not None
        },
        "queues": {
            name: (queues.allocated[row], queues.non_preemptible[row], queues.waiting[row])
            for name, row in sorted(queues.row_of.items())
        },
        "groups": {
            key: {name: tuple(leaf.counts) for name, leaf in sorted(group.leaves.items())}
            for key, group in sorted(ledger.groups.items())
        },
        "open": {key: count for key, count in sorted(ledger.open_groups.items()) if count},
        "pods": {
            key: (
                pods.state[row],
                nodes.name_of(pods.node[row]) if pods.node[row] >= 0 else None,
                pods.devices[row],
                pods.charge[row],
                pods.is_core[row] and pods.charge[row] > 0,
            )
            for key, row in sorted(pods.row_of.items())
        },
        "claims": dict(sorted(ledger.claims.use.items())),
    }


def exact(ledger: Ledger) -> tuple[object, ...]:
    """Return the book to the byte: columns by row and the order of its tables too."""
    nodes, queues, pods = ledger.nodes, ledger.queues, ledger.pods
    return (
        tuple(column.tobytes() for column in nodes.columns()),
        [list(table.items()) for table in (*nodes.shared, *nodes.idle_extra, *nodes.all_extra)],
        list(queues.allocated),
        list(queues.non_preemptible),
        list(queues.waiting),
        list(pods.state),
        list(pods.node),
        list(pods.devices),
        list(pods.charge),
        list(pods.is_core),
        list(pods.left.items()),
        list(ledger.open_groups.items()),
        [list(leaf.counts) for group in ledger.groups.values() for leaf in group.leaves.values()],
        list(ledger.before.items()),
        list(ledger.claims.use.items()),
        list(nodes.legacy_mig.items()),
        len(ledger.journal.entries),
        list(ledger.journal.touched),
    )
