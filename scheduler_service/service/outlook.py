"""The asking side of the door: why a group waits, what a request would get if it were made."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from scheduler_service.planning.forecast import Forecast
from scheduler_service.ports import Caller, ForecastAsk, RefusedRequest
from scheduler_service.service import (
    access,
    asking,
    estimates,
    group_view,
    look_ahead,
    reasons_told,
)
from scheduler_service.service.looking import Looking
from scheduler_service.wire.explain import ExplainView, ForecastView
from scheduler_service.wire.pod_group import EtaView, ReasonView


class Outlook(Looking):
    """Explanations and forecasts."""

    async def explain(self, caller: Caller, namespace: str, name: str) -> ExplainView:
        """Return why a group stands as it does, and what would help."""
        await self.freshen()
        record = self.seen(caller, namespace, name)
        view = self.view_for(caller, record)
        waiting = self.overview.waiting.get(record.key)
        reasons = () if waiting is None else tuple(map(self.for_now, waiting.reasons))
        is_waiting = waiting is not None and view.state == "Waiting"
        endings = (
            await self.ask_ahead(partial(look_ahead.endings, key=record.key)) if is_waiting else ()
        )
        scene = reasons_told.Scene(
            endings=endings,
            record=record,
            reasons=reasons,
            overview=self.overview,
            records={r.key: r for r in self.records if not r.is_over},
            now=self.clock(),
            viewer=caller.user,
            foreign=self.foreign_lines(),
        )
        mine = [other.key for other in reasons_told.held_by_the_viewer(scene)]
        if is_waiting and mine:
            look = partial(look_ahead.helpful, key=record.key, mine=mine)
            scene = replace(scene, helpful=await self.ask_ahead(look))
        return ExplainView(
            namespace=namespace,
            name=name,
            headline=view.sentence if record.is_over else view.headline,
            position=view.position,
            waiting_in_queue=view.waiting_in_queue,
            overall=view.overall,
            eta=view.eta,
            reasons=tuple(group_view.reason_view(reason) for reason in reasons),
            items=tuple(reasons_told.items(scene)),
            would_help=self.offered.get(record.key, ()),
        )

    async def forecast(self, caller: Caller, ask: ForecastAsk) -> ForecastView:
        """Return what a request would get if it were made now."""
        access.require_read(caller)
        await self.freshen()
        wish = asking.understood(caller, ask, self.world)
        try:
            asking.refuse_the_impossible(wish, self.world)
        except RefusedRequest as refused:
            return self._never(wish, refused)

        def look(scene: look_ahead.Scene) -> tuple[Forecast, EtaView]:
            known = scene.known()
            answer = look_ahead.forecast_of(scene, caller, wish, ask, known)
            return answer, estimates.eta_view(answer, known, scene.now)

        answer, eta = await self.ask_ahead(look)
        told = None if answer.reason is None else group_view.reason_view(answer.reason)
        return ForecastView(
            verdict="about" if answer.verdict == "by_eviction" else answer.verdict,
            text=_text(answer, eta, told),
            queue=wish.queue,
            request=group_view.request_of(wish.request, self.devices),
            workers=wish.workers,
            position=answer.position,
            waiting_in_queue=self.overview.in_queue.get(wish.queue, 0) + 1,
            eta=eta,
            reason=told,
            simulated=self.is_simulated,
        )

    def _never(self, wish: asking.Wish, refused: RefusedRequest) -> ForecastView:
        problem = refused.problem
        return ForecastView(
            verdict="never",
            text=f"never: {_lower(problem.detail)}",
            queue=wish.queue,
            request=group_view.request_of(wish.request, self.devices),
            workers=wish.workers,
            reason=ReasonView(code=problem.code, text=problem.detail, facts=problem.facts),
            simulated=self.is_simulated,
        )


def _text(answer: Forecast, eta: EtaView, told: ReasonView | None) -> str:
    if answer.verdict == "never" and told is not None:
        return f"never: {_lower(told.text)}"
    if answer.verdict == "by_eviction":
        return f"{eta.text}: others are asked to make room"
    return eta.text


def _lower(sentence: str) -> str:
    text = sentence.removeprefix("Cannot fit: ").removeprefix("Never").lstrip(": ").rstrip(".")
    return f"{text[:1].lower()}{text[1:]}"
