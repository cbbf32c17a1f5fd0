"""A handle on a pod group: how it stands, waiting for it, ending it, and the card that shows it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kai_jupyter.errors import KaiJupyterError, ServiceUnreachable, UsageError
from kai_jupyter.text import card_text, explain_text
from scheduler_service.wire.codec import encode
from scheduler_service.wire.pod_group import LEASE_KINDS, TERMINAL_STATES, PodGroupView

if TYPE_CHECKING:
    from kai_jupyter.session import Session
    from kai_jupyter.widgets.card import KaiCard
    from scheduler_service.wire.explain import ExplainView

TURN_S = 0.2
"""How often a wait looks up, so that Ctrl-C is heard at once."""
SETTLE_S = 1.5
SILENCE_S = 3.0
"""After so long without news a wait asks the service itself."""


class Handle:
    """What leases and gangs share."""

    def __init__(self, session: Session, view: PodGroupView) -> None:
        self._session = session
        self._changed = threading.Condition()
        self._view = view
        self._offline = ""
        self._card: KaiCard | None = None
        self._shown_in: int | None = None
        self.note = ""

    # -- how it stands ----------------------------------------------------------------------------------------------
    @property
    def view(self) -> PodGroupView:
        """How the group stood when it was last heard of."""
        return self._view

    @property
    def name(self) -> str:
        """Its name, by which it is found again."""
        return self._view.name

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self._view.namespace}/{self._view.name}"

    @property
    def state(self) -> str:
        """Its state, one of `wire.pod_group.GroupState`."""
        return self._view.state

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._view.state in TERMINAL_STATES

    def take(self, view: PodGroupView) -> None:
        """Learn how the group stands now. Called from the watcher's thread; old news is ignored."""
        with self._changed:
            if view.rev < self._view.rev:
                return
            before, self._view = self._view, view
            self._offline = ""
            self._changed.notify_all()
        self.on_change(before, view)
        self._draw()

    def on_change(self, before: PodGroupView, after: PodGroupView) -> None:
        """React to a change; for subclasses."""

    def lose(self, sentence: str) -> None:
        """Learn that the service does not answer."""
        if not self.is_over:
            self._offline = sentence
            self._draw()

    def refresh(self) -> PodGroupView:
        """Ask the service how the group stands."""
        self.take(self._session.client.group(self._view.namespace, self._view.name))
        return self._view

    def wait_until(
        self, is_done: Callable[[PodGroupView], bool], timeout: float | None = None
    ) -> bool:
        """Wait until `is_done`; False after `timeout` seconds. Survives a restart of the service."""
        deadline = None if timeout is None else time.monotonic() + timeout
        quiet_since = time.monotonic()
        self._session.follow(self)
        while not is_done(self._view):
            with self._changed:
                if self._changed.wait(TURN_S):
                    quiet_since = time.monotonic()
            if deadline is not None and time.monotonic() > deadline:
                return is_done(self._view)
            if time.monotonic() - quiet_since > SILENCE_S:
                quiet_since = time.monotonic()
                self._ask_quietly()
        return True

    def settle(self) -> None:
        """Give the service a moment for its first answer, so that the card starts with a place or a grant."""
        with contextlib.suppress(KaiJupyterError):
            self.wait_until(_has_place, SETTLE_S)

    def _ask_quietly(self) -> None:
        try:
            self.refresh()
        except ServiceUnreachable as error:
            self.lose(str(error))

    def explain(self) -> ExplainView:
        """Return why the group stands as it does."""
        return self._session.client.explain(self._view.namespace, self._view.name)

    def cancel(self, *, reason: str = "") -> PodGroupView:
        """End or withdraw the group."""
        self.take(self._session.client.cancel(self._view.namespace, self._view.name, reason=reason))
        return self._view

    # -- how it looks -----------------------------------------------------------------------------------------------
    @property
    def text(self) -> str:
        """The card as plain text."""
        return card_text(self._view, note=self.note, offline=self._offline)

    def __repr__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, _cycle: object) -> None:
        printer.text(self.text)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        card = self._widget()
        return {"text/plain": self.text} if card is None else card.bundle()

    def show(self) -> None:
        """Show the card."""
        self._shown_in = self._session.cells
        shell = self._session.shell
        if shell is None:
            print(self.text)  # noqa: T201 - a plain Python session
        else:
            shell.display_pub.publish(self._repr_mimebundle_())

    def _ipython_display_(self) -> None:
        """Show the card as the value of a cell, unless a magic has shown it in this cell already."""
        if self._shown_in != self._session.cells:
            self.show()

    def _widget(self) -> KaiCard | None:
        if not self._session.has_widgets:
            return None
        if self._card is None:
            from kai_jupyter.widgets.card import KaiCard

            kind = "lease" if self._view.kind in LEASE_KINDS else "gang"
            self._card = KaiCard(
                on_action=self._act, group=self.key, kind=kind, **self._card_state()
            )
        return self._card

    def draw_on(self, card: KaiCard) -> None:
        """Go on, on a card that is shown already."""
        self._card = card
        card.on_action = self._act
        with card.hold_sync():
            card.group, card.kind = self.key, "lease" if self._view.kind in LEASE_KINDS else "gang"
        self._draw()

    def _card_state(self) -> dict[str, Any]:
        return {
            "view": encode_json(self._view),
            "note": self.note,
            "offline": self._offline,
            "text": self.text,
        }

    def _draw(self) -> None:
        card = self._card
        if card is None:
            return
        with card.hold_sync():
            for name, value in self._card_state().items():
                setattr(card, name, value)

    def show_explanation(self) -> None:
        """Show the card with the reasons opened; in a terminal, the reasons as text."""
        explanation = self.explain()
        card = self._widget()
        if card is None:
            print(explain_text(explanation))  # noqa: T201 - the answer to a magic
            return
        card.explain = encode_json(explanation)
        card.text = f"{self.text}\n{explain_text(explanation)}"
        self.show()

    # -- what a person chose on the card, when the page itself could not do it --------------------------------------
    def _act(self, message: dict[str, Any]) -> None:
        try:
            self._carry_out(str(message.get("id")), message)
        except KaiJupyterError as error:
            self.note = str(error)
            self._draw()

    def _carry_out(self, action: str, message: dict[str, Any]) -> None:
        if action in ("cancel", "release"):
            self.cancel(reason="asked on the card")
        elif action == "extend":
            by_s = message.get("by_s")
            self.extend(by_s if isinstance(by_s, int) else None)
        elif action == "why" and self._card is not None:
            self._card.explain = encode_json(self.explain())
        else:
            raise UsageError("This can be done in a Jupyter page only. In a cell: %gpu or %gang.")

    def extend(self, by_s: int | None) -> PodGroupView:
        """Lengthen it by `by_s` seconds; None keeps it until it is released."""
        self.take(self._session.client.extend(self._view.namespace, self._view.name, by_s=by_s))
        return self._view


def _has_place(view: PodGroupView) -> bool:
    return view.position is not None or view.state not in ("Waiting", "Starting")


def encode_json(value: object) -> dict[str, Any]:
    """Return a wire value as the page gets it: lists for tuples."""
    import json

    plain: dict[str, Any] = json.loads(json.dumps(encode(value)))
    return plain


def tell(text: str) -> None:
    """Print a sentence where the person looks."""
    print(text, file=sys.stdout, flush=True)  # noqa: T201 - the answer to a person
