"""How nodes are nested: blocks, racks and the like, each level a node label."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Topology(msgspec.Struct, frozen=True, gc=False):
    """Label keys, widest level first; `aliases` name a level by another word."""

    name: str
    levels: tuple[str, ...]
    aliases: Mapping[str, str] = {}

    def level_index(self, word: str) -> int | None:
        """Return the position of the level that `word` (label key or alias) names, if any."""
        key = self.aliases.get(word, word)
        return self.levels.index(key) if key in self.levels else None


class TopologyConstraint(msgspec.Struct, frozen=True, gc=False):
    """Members must share one domain of the required level, and should of the preferred one."""

    name: str
    required_level: str | None = None
    preferred_level: str | None = None
