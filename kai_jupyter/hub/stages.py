"""How far a start is, in six stages that never go back, in the scheduler's own sentences. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any

from scheduler_service.wire.pod_group import PodGroupView

STAGES = ("Asked", "In the queue", "Granted", "Node chosen", "Image", "Starting")
ASKED, QUEUED, GRANTED, NODE, IMAGE, STARTING = range(len(STAGES))
FLOOR = (2, 5, 55, 60, 65, 85)
"""Where the bar stands when a stage begins, in percent; the next one's floor is its end."""
DONE = 95


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A button of the waiting page: the options it chooses instead, and when that would start."""

    label: str
    when: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a start is, as it is told. Moments in ms; None where a stage has not begun."""

    title: str = "Your server starts"
    stage: int = ASKED
    percent: int = FLOOR[ASKED]
    headline: str = "Asking."
    detail: str = ""
    began: tuple[int | None, ...] = (None,) * len(STAGES)
    notes: tuple[str, ...] = ("",) * len(STAGES)
    """What stands beside each stage: a node, an expected time."""
    acts: tuple[Act, ...] = ()
    keeps_place: bool = False
    """Whether there is a place that is kept while nobody looks."""

    def event(self) -> dict[str, Any]:
        """Return the standing as an event of JupyterHub's progress; `kai` is for our page, the rest for others."""
        html = f"<strong>{escape(self.headline)}</strong> {escape(self.detail)}".strip()
        return {
            "progress": self.percent,
            "message": f"{self.headline} {self.detail}".strip(),
            "html_message": html,
            "kai": {**asdict(self), "names": STAGES},
        }


class Course:
    """The way of one start. It only moves forward: what is said may change, the bar and the stages do not go back."""

    def __init__(self, title: str, now: int) -> None:
        self._began_at = now
        self.standing = Standing(title=title, began=(now, *(None,) * (len(STAGES) - 1)))

    def tell(self, headline: str, detail: str = "", **changes: Any) -> Standing:
        """Say something else at the same stage."""
        self.standing = replace(self.standing, headline=headline, detail=detail, **changes)
        return self.standing

    def reach(self, stage: int, now: int, *, part: float = 0.0) -> Standing:
        """Come to a stage, `part` (0 to 1) of it done. An earlier one changes nothing."""
        old = self.standing
        if stage < old.stage:
            return old
        end = FLOOR[stage + 1] if stage + 1 < len(FLOOR) else DONE
        percent = FLOOR[stage] + int((end - FLOOR[stage]) * min(1.0, max(0.0, part)))
        began = tuple(
            at if at is not None or number > stage else now for number, at in enumerate(old.began)
        )
        self.standing = replace(old, stage=stage, percent=max(old.percent, percent), began=began)
        return self.standing

    def note(self, stage: int, text: str) -> None:
        """Say something beside a stage."""
        notes = (*self.standing.notes[:stage], text, *self.standing.notes[stage + 1 :])
        self.standing = replace(self.standing, notes=notes)


def follow(course: Course, view: PodGroupView, now: int) -> Standing:
    """Take in how the request stands."""
    if view.state == "Waiting":
        course.reach(QUEUED, now, part=_part_waited(view, now))
        _expect(course, view)
        return course.tell(view.headline, view.detail, keeps_place=True)
    if view.state in {"Starting", "Running"}:
        course.reach(GRANTED, now)
        return course.tell(view.headline, view.detail, keeps_place=False)
    return course.tell(view.headline, view.detail, keeps_place=False)


def _part_waited(view: PodGroupView, now: int) -> float:
    """Return how much of the expected wait is over; of one without a forecast nothing is."""
    eta = view.eta
    if eta is None or eta.likely_at is None or eta.likely_at <= view.created_at:
        return 0.0
    return (now - view.created_at) / (eta.likely_at - view.created_at)


def _expect(course: Course, view: PodGroupView) -> None:
    eta = view.eta
    course.note(QUEUED, eta.text if eta is not None and eta.basis != "unknown" else "")
