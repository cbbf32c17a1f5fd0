"""The page of a team's lead as one widget: drawn in the page, fed by one stream from the service.

Rule: a page may send messages only; each is one of five kinds, and what it holds goes to the service, never into code.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiJupyterError
from kai_jupyter.team_feed import Page, TeamFeed

STATIC = Path(__file__).parent / "static"
WISHES = frozenset({"what_if", "change", "undo", "csv"})


def is_built() -> bool:
    """Whether the widget's module is there; a clone that was never built has none."""
    return (STATIC / "team.js").is_file()


def _static(name: str) -> Path | str:
    path = STATIC / name
    return path if path.is_file() else "export default { render() {} };"


class TeamBoard(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
    """The board. Make one with `await team_board()`."""

    _esm = _static("team.js")
    _css = _static("team.css") if (STATIC / "team.css").is_file() else ""

    view: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    offline = traitlets.Unicode("").tag(sync=True)

    def __init__(self, client: AsyncKaiClient | None = None, **state: Any) -> None:
        super().__init__(**state)
        self.feed = TeamFeed(client or AsyncKaiClient(), on_page=self._show, on_trouble=self._tell)
        self._answering: set[asyncio.Task[None]] = set()
        self.on_msg(self._take)

    def _show(self, page: Page) -> None:
        self.view = page

    def _tell(self, trouble: str) -> None:
        self.offline = trouble

    def _take(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if not isinstance(content, dict):
            return
        kind = content.get("kind")
        if kind == "look":
            self.feed.look()
        elif kind in WISHES:
            answering = asyncio.get_running_loop().create_task(
                self._answer(str(kind), content.get("ask"), str(content.get("id", "")))
            )
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)

    async def _answer(self, kind: str, wish: object, number: str) -> None:
        wishes = {
            "what_if": self.feed.what_if,
            "change": self.feed.change,
            "undo": self.feed.undo,
            "csv": self.feed.csv,
        }
        told: dict[str, object] = {"kind": "answer", "id": number}
        try:
            told["data"] = await wishes[kind](wish)
        except (KaiJupyterError, TypeError, ValueError) as error:
            told["trouble"] = str(error)
        self.send(told)

    def _repr_mimebundle_(self, **more: Any) -> Any:
        """Show the widget, with the numbers as text for what can not draw it (a saved notebook, a diff)."""
        shown = super()._repr_mimebundle_(**more)
        data: dict[str, Any] = dict((shown[0] if isinstance(shown, tuple) else shown) or {})
        data["text/plain"] = self.text
        return (data, shown[1]) if isinstance(shown, tuple) else data

    @property
    def text(self) -> str:
        """The head of the page in words."""
        if not self.view:
            return self.offline or "The page of a team's lead."
        numbers = (f"{n['label']} {n['value']} {n['unit']}" for n in self.view["numbers"])
        return f"{self.view['title']}: {'; '.join(numbers)}."


async def team_board(client: AsyncKaiClient | None = None) -> TeamBoard:
    """Return the board with the page as it is now; it keeps itself fresh while somebody looks."""
    made = TeamBoard(client)
    await made.feed.first()
    return made
