"""The card under a cell.

It is drawn from `view`; in a Jupyter page it also listens to the page, so it stays alive while the kernel is busy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

STATIC = Path(__file__).parent / "static"


def is_built() -> bool:
    """Whether the card's module is there; a clone that was never built shows text instead."""
    return (STATIC / "card.js").is_file()


def _static(name: str) -> Path | str:
    path = STATIC / name
    return path if path.is_file() else "export default { render() {} };"


class KaiCard(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
    """One card. `on_action` is called with what a person chose, when the page itself could not do it."""

    _esm = _static("card.js")
    _css = _static("card.css") if (STATIC / "card.css").is_file() else ""

    group = traitlets.Unicode("").tag(sync=True)
    kind = traitlets.Unicode("lease").tag(sync=True)
    view: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    explain: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    ask: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    logs: traitlets.List[Any] = traitlets.List().tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)
    offline = traitlets.Unicode("").tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)

    def __init__(self, *, on_action: Callable[[dict[str, Any]], None], **state: Any) -> None:
        super().__init__(**state)
        self.on_action = on_action
        self.on_msg(self._take)

    def _take(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, dict) and content.get("kind") in ("action", "ask"):
            self.on_action(content)

    def bundle(self) -> dict[str, Any]:
        """Return the card for display, with its text for front ends without widgets."""
        shown = self._repr_mimebundle_()
        data: dict[str, Any] = dict((shown[0] if isinstance(shown, tuple) else shown) or {})
        return {**data, "text/plain": self.text}
