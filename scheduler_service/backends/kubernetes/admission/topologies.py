"""What the aliases of a Topology's levels must look like; its schema judges the rest. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scheduler_service.backends.kubernetes.admission.review import Answer, Request, items, text


def topology_answer(request: Request) -> Answer:
    """Return whether every alias means one level and none can be taken for a node label."""
    return Answer(tuple(_refusals(request)))


def _refusals(request: Request) -> Iterator[str]:
    levels = items(request.object, "spec", "levels")
    node_labels = {text(level, "nodeLabel") for level in levels}
    aliases = Counter(alias for level in levels if (alias := text(level, "alias")))
    for alias, count in sorted(aliases.items()):
        if count > 1:
            yield f"The alias '{alias}' stands for {count} levels. Give each level one of its own."
        if alias in node_labels:
            yield f"The alias '{alias}' is also the node label of a level. Choose another."
