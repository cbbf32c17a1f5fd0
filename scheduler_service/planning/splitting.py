"""What splitting a GPU wastes, known beforehand from the sizes of the parts that are asked for.

A part has a value, the part of a GPU that it uses up in the best of all packings, so far as that
is known. Values never add up to more than that of the room they fit into (a dual feasible
function, as in lower bounds of bin packing). So what is lost in value when a part is taken out of
a room is lost for good: 470 beside 320 of a GPU leaves 210 that nobody may want, beside another
470 it does not.

Values count how many pieces of one size fit: of all sizes that are asked for, the one under which
all parts together have the highest value tells most.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from scheduler_service.planning.requests import GPU, Request

HALF = GPU // 2


class Split(NamedTuple):
    """The value of parts, by how many pieces of a size they hold; sizes in thousandths."""

    piece: int

    @property
    def pieces(self) -> int:
        """How many pieces a GPU holds."""
        return GPU // self.piece

    def value(self, part: int) -> int:
        """Return the value of a part; a whole GPU has twice as many as it holds pieces."""
        if part < HALF:
            return 2 * (part // self.piece)
        if part == HALF:
            return self.pieces
        return 2 * (self.pieces - (GPU - part) // self.piece)

    def waste(self, room: int, part: int) -> int:
        """Return what is wasted when a part is taken out of a room, in thousandths of a GPU."""
        lost = self.value(room) - self.value(room - part) - self.value(part)
        return lost * HALF // self.pieces


def best_split(requests: Sequence[Request]) -> Split:
    """Return the values that say most about these requests."""
    parts = [(request.size, request.weight * request.gpus) for request in requests]
    choices = {size for size, _ in parts if size <= HALF} or {HALF}

    def worth(piece: int) -> tuple[Fraction, int]:
        split = Split(piece)
        value = sum(weight * split.value(size) for size, weight in parts)
        return Fraction(value, split.pieces), piece

    return Split(max(choices, key=worth))
