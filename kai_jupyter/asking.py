"""The card before the request: what each amount would get now. The forecast comes before the person commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kai_jupyter.errors import KaiJupyterError
from kai_jupyter.handles import Handle, encode_json, tell
from kai_jupyter.leases import lease_request, take_lease
from kai_jupyter.text import asking_text, memory_text
from scheduler_service.wire.codec import decode
from scheduler_service.wire.pod_group import Submit

if TYPE_CHECKING:
    from kai_jupyter.session import Session
    from kai_jupyter.widgets.card import KaiCard

DURATIONS = ("", "1h", "2h", "4h", "8h")


class Asking:
    """Shows the choices; one click makes the request."""

    def __init__(self, session: Session, choices: Sequence[str]) -> None:
        self._session = session
        self._card: KaiCard | None = None
        self._lease: Handle | None = None
        self._asks = [
            lease_request(session, amount=choice, memory=None, options={}) for choice in choices
        ]
        self.forecasts = [session.client.forecast(gpu=choice) for choice in choices]

    @property
    def text(self) -> str:
        """The choices as plain text."""
        return asking_text(self.forecasts)

    def __repr__(self) -> str:
        return self.text

    def show(self) -> None:
        """Show the card, or the choices as text."""
        if not self._session.has_widgets:
            tell(self.text)
            return
        from kai_jupyter.widgets.card import KaiCard

        self._card = KaiCard(on_action=self._act, kind="ask", ask=self._ask(), text=self.text)
        shell: Any = self._session.shell
        shell.display_pub.publish(self._card.bundle())

    def _ipython_display_(self) -> None:
        """Show nothing a second time: the magic did."""

    def _ask(self) -> dict[str, Any]:
        queues = [q for q in self._session.client.queues() if q.is_leaf and q.may_submit]
        return {
            "queues": [q.name for q in queues],
            "durations": list(DURATIONS),
            "choices": [
                {
                    **encode_json(forecast),
                    "gpu": ask.gpu,
                    "memory_text": memory_text(forecast.request.share_mib),
                    "submit": encode_json(ask),
                }
                for ask, forecast in zip(self._asks, self.forecasts, strict=True)
            ],
        }

    def _act(self, message: dict[str, Any]) -> None:
        """Make the request that was chosen on the card, where the page could not."""
        card = self._card
        if card is None or not isinstance(message.get("submit"), dict):
            return
        try:
            lease = take_lease(self._session, decode(Submit, message["submit"]))
        except (KaiJupyterError, TypeError) as error:
            card.note = str(error)
            return
        lease.draw_on(card)
