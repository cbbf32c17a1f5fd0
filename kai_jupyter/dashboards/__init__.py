"""Whole pages made of our widgets: notebooks that Voila serves, and that open as notebooks too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kai_jupyter.widgets.team import TeamBoard

__all__ = ["team_board"]


async def team_board() -> TeamBoard:
    """Return the page of those who lead queues, on the service that is found from here."""
    from kai_jupyter.widgets.team import team_board as made

    return await made()
