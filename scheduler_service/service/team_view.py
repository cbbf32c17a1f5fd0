"""A lead's page as a whole: the four numbers with their trends, what needs a person, and the lists. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from scheduler_service.model.quantities import gpu_words
from scheduler_service.service import overlaid, team_parts
from scheduler_service.service.team_parts import Scene, day_start
from scheduler_service.store.records import GroupRecord
from scheduler_service.store.use_lately import QueueUse, Sample
from scheduler_service.wire.team import NeedRow, TeamNumber, TeamView, UseSeries
from scheduler_service.words.units import DAY_MS, HOUR_MS, MINUTE_MS, duration_words

POINTS_OF_DAY = 96
POINTS_OF_LINE = 9
NEAR_MS = 10 * MINUTE_MS
"""A sample so near to an hour ago stands for it."""
UNKNOWN = "\u2013"
NO_TREND = "no trend yet"


def team_view(scene: Scene) -> TeamView:
    """Return everything on the page, consistent with the last plan."""
    people = tuple(team_parts.people_rows(scene))
    return TeamView(
        rev=scene.rev,
        now=scene.now,
        title=_title(scene),
        subtitle=_subtitle(scene, len({row.who for row in people})),
        simulated=scene.is_simulated,
        user=scene.caller.user,
        led=tuple(name for name in scene.queues if name in scene.led),
        may_change=scene.may_change,
        numbers=tuple(_numbers(scene)),
        needs=tuple(_needs(scene)),
        queues=tuple(team_parts.queue_rows(scene)),
        people=people[: team_parts.MOST_ROWS],
        people_count=len({row.who for row in people}),
        waiting=tuple(team_parts.waiting_rows(scene)),
        leases=tuple(team_parts.lease_rows(scene)),
        gangs=tuple(team_parts.gang_rows(scene)),
        use=_use(scene),
        changes=tuple(team_parts.change_rows(scene)),
    )


def _title(scene: Scene) -> str:
    tops = _tops(scene)
    if len(tops) == 1:
        return f"Queue {tops[0]}"
    is_all = len(scene.led) == len(scene.queues)
    return "All queues" if is_all else f"Queues {', '.join(tops)}"


def _tops(scene: Scene) -> list[str]:
    """Return the led queues that are not below another led one."""
    return [
        name
        for name, queue in scene.queues.items()
        if name in scene.led and queue.parent not in scene.led
    ]


def _subtitle(scene: Scene, people: int) -> str:
    nodes = scene.picture.nodes
    gpus = gpu_words(sum(len(node.devices) or node.gpus for node in nodes) * 1000)
    leaves = len(scene.queues) - len({queue.parent for queue in scene.queues.values()} - {None})
    kind = "simulated " if scene.is_simulated else ""
    amount, _, word = gpus.partition(" ")
    return (
        f"{amount} {kind}{word} on {_plural(len(nodes), 'node')}, {_plural(leaves, 'queue')},"
        f" {_plural(people, 'person', 'people')} here today"
    )


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


# -- the four numbers ----------------------------------------------------------------------------
def _numbers(scene: Scene) -> Iterator[TeamNumber]:
    now = _sum(_now(scene).values())
    yield _allocated(scene, now)
    yield _waiting(scene, now)
    yield _wait(scene)
    yield _idle(scene, now)


def sample_of(scene: Scene) -> Sample:
    """Return how things stand, to be kept for the lines."""
    capacity = sum(len(node.devices) or node.gpus for node in scene.picture.nodes) * 1000
    return Sample(scene.now, capacity, _now(scene))


def _now(scene: Scene) -> dict[str, QueueUse]:
    found = {name: QueueUse() for name in scene.led}
    for record in scene.live:
        before = found[record.queue]
        held, is_waiting = overlaid.holds(record), record in scene.waits
        idle = 0 if scene.standings[record.key].idle_ms is None else held
        found[record.queue] = QueueUse(
            before.allocated + held,
            before.requested + held + scene.asks(record),
            before.waiting + is_waiting,
            before.idle + idle,
        )
    return {name: use for name, use in found.items() if use != QueueUse()}


def _sum(uses: Iterable[QueueUse]) -> QueueUse:
    every = list(uses)
    return QueueUse(
        sum(use.allocated for use in every),
        sum(use.requested for use in every),
        sum(use.waiting for use in every),
        sum(use.idle for use in every),
    )


def _of(scene: Scene, sample: Sample) -> QueueUse:
    return _sum(use for name, use in sample.queues.items() if name in scene.led)


def _hour_ago(scene: Scene) -> QueueUse | None:
    at = scene.now - HOUR_MS
    near = [sample for sample in scene.samples if abs(sample.at - at) <= NEAR_MS]
    return _of(scene, min(near, key=lambda sample: abs(sample.at - at))) if near else None


def _line(scene: Scene, field: int) -> tuple[float, ...]:
    """Return one amount over the last eight hours, a mean an hour, the newest as it is."""
    found: list[float] = []
    for hour in range(POINTS_OF_LINE - 1, 0, -1):
        begin = scene.now - hour * HOUR_MS
        part = [s for s in scene.samples if begin <= s.at < begin + HOUR_MS]
        if part:
            found.append(sum(_fields(_of(scene, s))[field] for s in part) / len(part))
    return (*found, _fields(_sum(_now(scene).values()))[field]) if found else ()


def _fields(use: QueueUse) -> tuple[int, int, int, int]:
    return use.allocated, use.requested, use.waiting, use.idle


def _trend(now: float, before: float | None, unit: float, since: str) -> dict[str, str]:
    if before is None:
        return {"trend": "unknown", "trend_text": NO_TREND}
    delta = (now - before) / unit
    if abs(delta) < 0.005:  # noqa: PLR2004 - less than is shown
        return {"trend": "level", "trend_text": f"same as {since}"}
    more = "more" if delta > 0 else "less"
    text = f"{abs(delta):.2f}".rstrip("0").rstrip(".")
    return {"trend": "up" if delta > 0 else "down", "trend_text": f"{text} {more} than {since}"}


def _number(milli: int) -> str:
    return f"{milli / 1000:.2f}".rstrip("0").rstrip(".")


def _allocated(scene: Scene, now: QueueUse) -> TeamNumber:
    quotas = [scene.queues[name].gpu.quota for name in _tops(scene)]
    known = [quota for quota in quotas if quota is not None]
    unit = "GPUs, no quota"
    if len(known) == len(quotas):
        unit = f"of {gpu_words(sum(known))} of quota"
    before = _hour_ago(scene)
    return TeamNumber(
        id="allocated",
        label="Allocated",
        value=_number(now.allocated),
        unit=unit,
        points=_line(scene, 0),
        points_text="Allocated GPUs, last 8 h",
        **_trend(now.allocated, before and before.allocated, 1000, "an hour ago"),  # type: ignore[arg-type]
    )


def _waiting(scene: Scene, now: QueueUse) -> TeamNumber:
    asked = sum(scene.asks(record) for record in scene.waits)
    before = _hour_ago(scene)
    return TeamNumber(
        id="waiting",
        label="Waiting",
        value=str(now.waiting),
        unit=f"{'request' if now.waiting == 1 else 'requests'}, {gpu_words(asked)}",
        points=_line(scene, 2),
        points_text="Waiting requests, last 8 h",
        **_trend(now.waiting, before and before.waiting, 1, "an hour ago"),  # type: ignore[arg-type]
    )


def _waits_on(scene: Scene, begin: int) -> float | None:
    """Return the median wait of what was granted on the day that begins then, in ms."""
    own = (r for r in (*scene.live, *scene.ended) if r.queue in scene.led)
    found = [
        r.granted_at - r.created_at
        for r in own
        if r.granted_at is not None and begin <= r.granted_at < begin + DAY_MS
    ]
    return median(found) if found else None


def _wait(scene: Scene) -> TeamNumber:
    today = day_start(scene.now)
    days = [_waits_on(scene, today - back * DAY_MS) for back in range(7, -1, -1)]
    now, before = days[-1], days[-2]
    value, unit = UNKNOWN, "nothing was granted today"
    if now is not None:
        value, _, unit = duration_words(round(now)).partition(" ")
    trend = {"trend": "unknown", "trend_text": NO_TREND}
    if now is not None and before is not None:
        delta = now - before
        words = duration_words(abs(round(delta)))
        trend = {
            "trend": "level" if words == "0 s" else "up" if delta > 0 else "down",
            "trend_text": "same as yesterday"
            if words == "0 s"
            else f"{words} {'more' if delta > 0 else 'less'} than yesterday",
        }
    return TeamNumber(
        id="wait",
        label="Median wait today",
        value=value,
        unit=unit,
        points=tuple(day for day in days if day is not None),
        points_text="Median wait, last 8 days",
        **trend,  # type: ignore[arg-type]
    )


def _idle(scene: Scene, now: QueueUse) -> TeamNumber:
    if not scene.picture.usage:
        return TeamNumber(
            id="idle",
            label="Idle now",
            value=UNKNOWN,
            unit="not measured here",
            trend="unknown",
            trend_text="simulated GPUs do no work" if scene.is_simulated else NO_TREND,
        )
    count = len(_idle_ones(scene))
    before = _hour_ago(scene)
    return TeamNumber(
        id="idle",
        label="Idle now",
        value=_number(now.idle),
        unit=f"GPUs, {_plural(count, 'lease')}",
        points=_line(scene, 3),
        points_text="Idle GPUs, last 8 h",
        **_trend(now.idle, before and before.idle, 1000, "an hour ago"),  # type: ignore[arg-type]
    )


# -- what needs a person -------------------------------------------------------------------------
def _idle_ones(scene: Scene) -> list[GroupRecord]:
    return [record for record in scene.live if scene.standings[record.key].idle_ms is not None]


def _needs(scene: Scene) -> Iterator[NeedRow]:
    yield from (_never(scene, record) for record in scene.waits if scene.is_never(record))
    for queue in scene.queues:
        idle = [record for record in _idle_ones(scene) if record.queue == queue]
        if idle:
            yield _idle_row(scene, queue, idle)
    for record in scene.waits:
        if scene.is_late(record) and not scene.is_never(record):
            yield _late(scene, record)


def _never(scene: Scene, record: GroupRecord) -> NeedRow:
    what = f"Gang {record.name}" if record.ask.kind == "gang" else record.name
    return NeedRow(
        kind="never",
        word="Cannot fit",
        tone="stop",
        icon="octagon",
        title=f"{what} of {scene.who(record)} can never start.",
        text=str(scene.standings[record.key].reason),
        queue=record.queue,
        who=(scene.who(record),),
        groups=(record.key,),
    )


def _idle_row(scene: Scene, queue: str, idle: Sequence[GroupRecord]) -> NeedRow:
    after = duration_words(scene.picture.config.rules_of(queue).idle_after_s * 1000)
    held = sum(overlaid.holds(record) for record in idle)
    left, would_fit = held, 0
    for asks in sorted(scene.asks(record) for record in scene.waits):
        if asks <= left:
            left, would_fit = left - asks, would_fit + 1
    count = len(idle)
    has = "lease has" if count == 1 else "leases have"
    wish = (
        f"; {would_fit} waiting {'asks' if would_fit == 1 else 'ask'} for no more"
        if would_fit
        else ""
    )
    return NeedRow(
        kind="idle",
        word="Idle",
        tone="wait",
        icon="moon",
        title=f"{count} {has} been idle for more than {after} in {queue}.",
        text=f"{'It holds' if count == 1 else 'They hold'} {gpu_words(held)}{wish}.",
        queue=queue,
        who=tuple(dict.fromkeys(scene.who(record) for record in idle)),
        groups=tuple(record.key for record in idle),
    )


def _late(scene: Scene, record: GroupRecord) -> NeedRow:
    waited = duration_words(scene.now - record.created_at)
    promise = scene.promises.get(record.key)
    said = ""
    if promise is not None:
        said = f"; we said {duration_words(promise.likely_at - promise.said_at)}"
    reason = scene.standings[record.key].reason
    return NeedRow(
        kind="late",
        word="Late" if promise is not None else "Long wait",
        tone="wait",
        icon="hourglass",
        title=f"{scene.who(record)} has waited {waited} for {record.name}{said}.",
        text="" if reason is None else str(reason),
        queue=record.queue,
        who=(scene.who(record),),
        groups=(record.key,),
    )


# -- use over a day ------------------------------------------------------------------------------
def _use(scene: Scene) -> UseSeries:
    part = DAY_MS // POINTS_OF_DAY
    buckets: dict[int, list[QueueUse]] = {}
    for sample in scene.samples:
        if sample.at > scene.now - DAY_MS:
            buckets.setdefault(sample.at // part, []).append(_of(scene, sample))
    at = sorted(buckets)
    capacity = sum(len(node.devices) or node.gpus for node in scene.picture.nodes) * 1000
    return UseSeries(
        at=tuple(number * part for number in at),
        allocated=tuple(_mean([use.allocated for use in buckets[n]]) for n in at),
        requested=tuple(_mean([use.requested for use in buckets[n]]) for n in at),
        capacity=capacity,
    )


def _mean(values: Sequence[int]) -> int:
    return round(sum(values) / len(values))
