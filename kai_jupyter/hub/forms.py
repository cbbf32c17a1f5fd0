"""The start page's form: drawn here once with what is known now, kept up to date by our script."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, select_autoescape

from kai_jupyter.hub.forecasts import Picture, Row
from kai_jupyter.hub.options import CPU, OTHER, PRIORITIES, USUAL, Chosen, chosen_in, title_of

if TYPE_CHECKING:
    from kai_jupyter.hub.spawning import KaiSpawning

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
STATIC = HERE / "static"


@cache
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(TEMPLATES), autoescape=select_autoescape(["html"]))


async def form_of(spawner: KaiSpawning) -> str:
    """Return the form of a server's start page."""
    last = chosen_in(spawner.orm_spawner.user_options or {})
    known = {name: last[name] for name in last if name in Chosen.__dataclass_fields__}
    chosen = Chosen(**known)
    shown = await spawner.kai_picture(chosen)
    return drawn(shown, spawner, chosen, has_last=bool(last))


def drawn(shown: Picture, spawner: KaiSpawning, last: Chosen, *, has_last: bool) -> str:
    """Return the form as HTML."""
    offer = spawner.kai_offer
    rows = [row for row in shown.rows if row.id != OTHER]
    checked = first_choice(rows, last.share if has_last else "")
    values: dict[str, Any] = {
        "rows": rows,
        "checked": checked,
        "last": last.share if has_last else "",
        "lead": lead_of(rows, last if has_last else None),
        "queues": shown.queues,
        "queue": shown.queue,
        "told": shown.told,
        "simulated": shown.simulated,
        "priorities": PRIORITIES,
        "priority": last.priority if last.priority in PRIORITIES else USUAL,
        "profiles": offer.profiles,
        "profile": last.profile,
        "takes_memory": offer.takes_memory and bool(shown.queues),
        "gpu_memory": last.gpu_memory,
        "button": button_of(checked),
        "data": json.dumps({"server": spawner.name, "user": spawner.user.name}),
    }
    return _templates().get_template("kai_form.html").render(values)


def first_choice(rows: list[Row], last: str) -> str:
    """Return the card that is chosen first: the last choice if it starts soon, else the CPU, else what starts."""
    by_id = {row.id: row for row in rows}
    if last in by_id and not by_id[last].is_long:
        return last
    if CPU in by_id:
        return CPU
    possible = [row.id for row in rows if row.verdict != "never"]
    return last if last in possible else next(iter(possible), "")


def lead_of(rows: list[Row], last: Chosen | None) -> str:
    """Return the sentence above the cards: what the last choice would mean now."""
    row = next((row for row in rows if last is not None and row.id == last.share), None)
    if row is None or last is None or not last.wants_gpu or not row.is_long:
        return ""
    instead = "On CPU you start now and ask for the GPU from the notebook."
    if row.verdict == "about":
        return f"Your last choice, {title_of(last)}, would wait {row.when}. {instead}"
    if row.verdict == "never":
        return f"Your last choice, {title_of(last)}, can not start any more. {instead}"
    return f"How long your last choice, {title_of(last)}, would wait is not known. {instead}"


def button_of(share: str) -> str:
    """Return what the button says."""
    return "Start on CPU now" if share == CPU else "Start"
