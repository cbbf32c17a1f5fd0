"""Devices handed out through claims: who has which claim, and what that takes of a node.

The devices of a claim are taken once, however many pods use it; queues are charged per pod.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler_service.ledger.journal import Journal
from scheduler_service.ledger.nodes import CLAIM_PREFIX, NO_NODE, NodeTable, Part
from scheduler_service.ledger.shape import Shape
from scheduler_service.model.claim import MAX_CLAIM_USERS, ResourceClaim


class Use(NamedTuple):
    """Where a claim is allocated, and how many of our pods hold it now and later."""

    node: int = NO_NODE
    now: int = 0
    later: int = 0


class ClaimTable:
    """All claims by namespace/name, with their use (journaled)."""

    def __init__(self, journal: Journal, nodes: NodeTable) -> None:
        self.journal = journal
        self.nodes = nodes
        self.models: dict[str, ResourceClaim] = {}
        self.use: dict[str, Use] = {}

    def gpus(self, namespace: str, shape: Shape) -> int:
        """Return the GPUs that the claims of a shape stand for."""
        models = (self.models.get(f"{namespace}/{name}") for name in shape.claims)
        return sum(model.count for model in models if model is not None and model.is_gpu)

    def add(self, claim: ResourceClaim) -> None:
        """Take a claim into the table. Foreign users keep its devices where they are."""
        self.remove(claim.key)
        self.models[claim.key] = claim
        node = NO_NODE
        if claim.allocation is not None and claim.foreign_consumers:
            node = self.nodes.row_of.get(claim.allocation.node, NO_NODE)
        self.use[claim.key] = Use(node)
        if node != NO_NODE:
            self.nodes.book_claim(node, claim.device_class, claim.count, Part(1, 1))

    def remove(self, key: str) -> None:
        """Forget a claim and free what foreign users held."""
        claim, use = self.models.pop(key, None), self.use.pop(key, None)
        if claim and use and use.node != NO_NODE and claim.foreign_consumers:
            self.nodes.book_claim(use.node, claim.device_class, claim.count, Part(-1, -1))

    def book(self, namespace: str, names: tuple[str, ...], node: int, part: Part) -> None:
        """Count one more (or less) user of each claim; the first takes, the last frees."""
        for name in names:
            key = f"{namespace}/{name}"
            claim = self.models.get(key)
            if claim is None:
                continue
            old = self.use[key]
            now, later = old.now + part.now, old.later + part.later
            stays = bool(claim.foreign_consumers) and old.node != NO_NODE
            place = node if now or later or stays else NO_NODE
            self.journal.put(self.use, key, Use(place, now, later))
            if not stays:
                taken = Part((now > 0) - (old.now > 0), (later > 0) - (old.later > 0))
                if taken.now or taken.later:
                    self.nodes.book_claim(node, claim.device_class, claim.count, taken)

    def unusable(self, key: str, queue: str) -> str | None:
        """Return why no further pod of this queue may use a claim, or None."""
        claim = self.models.get(key)
        if claim is None:
            return "does not exist"
        if claim.is_gpu and claim.queue != queue:
            return f"belongs to queue {claim.queue}" if claim.queue else "has no queue label"
        use = self.use[key]
        if max(use.now, use.later) + claim.foreign_consumers >= MAX_CLAIM_USERS:
            return f"has its {MAX_CLAIM_USERS} users already"
        return None

    def room(self, key: str, node: int) -> tuple[bool, bool]:
        """Return whether a claim's devices can be had on a node now, and later."""
        claim, use = self.models[key], self.use[key]
        if use.node != NO_NODE and (use.now or use.later or claim.foreign_consumers):
            is_here = use.node == node
            stays = use.now > 0 or claim.foreign_consumers > 0
            is_kept = use.later > 0 or claim.foreign_consumers > 0
            name = CLAIM_PREFIX + claim.device_class
            has_room = is_kept or claim.count <= self.nodes.all_extra[node].get(name, 0)
            return is_here and stays, is_here and has_room
        name = CLAIM_PREFIX + claim.device_class
        idle = self.nodes.idle_extra[node].get(name, 0)
        later = self.nodes.all_extra[node].get(name, 0)
        return claim.count <= idle, claim.count <= later
