"""A start that is refused: what, why, and buttons for what to choose instead. Text is escaped here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import urlencode

from jupyterhub.spawner import SpawnException

from kai_jupyter.hub.stages import Act

FORBIDDEN = 403


class NotStarted(SpawnException):
    """A server that was not started, in words for a page and for programs."""

    def __init__(
        self, sentence: str, *, reason: str, html: str = "", status_code: int = FORBIDDEN
    ) -> None:
        super().__init__(sentence, reason=reason, message_html=html, status_code=status_code)
        self.jupyterhub_message = sentence
        self.jupyterhub_html_message = html or escape(sentence)

    def __str__(self) -> str:
        return str(self.jupyterhub_message)


def refusal(
    sentence: str,
    *,
    reason: str,
    spawn_url: str = "",
    acts: Sequence[Act] = (),
    status_code: int = FORBIDDEN,
) -> NotStarted:
    """Return the refusal with a way on: one button for each choice that would start."""
    what, _, rest = sentence.partition(". ")
    html = f"<strong>{escape(what)}{'.' if rest else ''}</strong> {escape(rest)}".strip()
    buttons = "".join(_button(act, spawn_url, is_first=not n) for n, act in enumerate(acts))
    if buttons:
        html = f'{html}<span class="jp-Kai-Actions">{buttons}</span>'
    return NotStarted(sentence, reason=reason, html=html, status_code=status_code)


def _button(act: Act, spawn_url: str, *, is_first: bool) -> str:
    options = urlencode({f"opt-{name}": value for name, value in act.options.items()})
    kind = ' data-kind="main"' if is_first else ""
    when = f' <span class="jp-Kai-When">({escape(act.when)})</span>' if act.when else ""
    href = escape(f"{spawn_url}?{options}")
    return (
        f'<a class="jp-Kai-Button" data-size="l"{kind} href="{href}">{escape(act.label)}{when}</a>'
    )
