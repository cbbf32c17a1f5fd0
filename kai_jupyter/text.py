"""The card as plain text, for terminals, saved notebooks and where there are no widgets: same words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_service.wire.explain import ExplainView, ForecastView
from scheduler_service.wire.pod_group import (
    LEASE_KINDS,
    TERMINAL_STATES,
    ActionView,
    FailureView,
    PodGroupView,
    RequestView,
)
from scheduler_service.wire.runner import Failure

LABEL = 10
GAP = 2
Row = tuple[str, str]
"""A label ("" = that of the row above) and its text."""
TIMES = "\N{MULTIPLICATION SIGN}"
_CONTEXT_LINES = 2
_PROGRESS_SHOWN = 8


def laid_out(rows: Iterable[Row]) -> list[str]:
    """Return a line for each label and its text, the texts in one column that no label reaches into."""
    known = list(rows)
    width = max([LABEL, *(len(label) + GAP for label, _ in known)])
    return [f"{label:<{width}}{text}".rstrip() for label, text in known]


def memory_text(mib: int | None) -> str:
    """Return device memory in words ("40 GiB", "512 MiB"); "" where it is not known."""
    if not mib:
        return ""
    return f"{mib / 1024:g} GiB" if mib % 256 == 0 else f"{mib} MiB"


def request_text(request: RequestView) -> str:
    """Return the amount with its memory: "0.5 GPU, 12 GiB memory share"."""
    memory = memory_text(request.share_mib)
    return f"{request.text}, {memory} memory share" if memory else request.text


def title_of(view: PodGroupView) -> str:
    """Return what was asked for, in one line."""
    if view.kind not in LEASE_KINDS:
        workers = f"{view.workers} worker" + ("s" if view.workers != 1 else "")
        return f"{view.name}, {workers} {TIMES} {view.request.text}, queue {view.queue}"
    return f"{request_text(view.request)}, queue {view.queue}"


def card_text(view: PodGroupView, *, note: str = "", offline: str = "") -> str:
    """Return the card of a group."""
    rows = [("Offline", offline), ("Last known", view.sentence)] if offline else _rows(view, note)
    return "\n".join([title_of(view), *laid_out(rows)])


def _rows(view: PodGroupView, note: str) -> list[Row]:
    rows = _under(view.word, [text for text in (view.headline, view.detail) if text] or [""])
    rows += [("Note", text) for text in (*view.notes, note) if text]
    rows += _under("Progress", _progress(view))
    if view.failure is not None:
        rows += _failure(view.failure)
    rows += _under("Result", [f"{item.name}   {item.text}" for item in view.results])
    rows += _under("Sooner", _offers(view.actions))
    return rows + ways_on(view)


def _under(label: str, texts: Iterable[str]) -> list[Row]:
    return [(label if place == 0 else "", text) for place, text in enumerate(texts)]


def _progress(view: PodGroupView) -> list[str]:
    told = [pod for pod in view.pods if pod.progress is not None][:_PROGRESS_SHOWN]
    lines = []
    for pod in told:
        progress = pod.progress
        assert progress is not None  # noqa: S101 - chosen so above
        of = f" of {progress.total:,}" if progress.total else ""
        metrics = "".join(
            f", {name} {value:.4g}" for name, value in sorted(progress.metrics.items())
        )
        lines.append(f"worker {pod.rank}: step {progress.step:,}{of}{metrics}")
    return lines


def failure_lines(failure: FailureView) -> list[str]:
    """Return the first failure with the failing line of the cell between its neighbours."""
    return laid_out(_failure(failure))


def cell_failure_lines(failure: Failure) -> list[str]:
    """Return the failure of a cell with its line between its neighbours."""
    return laid_out([("Failed", failure.message.splitlines()[-1]), *_lines_around(failure)])


def _failure(failure: FailureView) -> list[Row]:
    told = f"worker {failure.rank}: {failure.message.splitlines()[-1]}"
    return [("Failed", told), *_lines_around(failure)]


def _lines_around(failure: FailureView | Failure) -> list[Row]:
    rows: list[Row] = []
    if failure.source is None or failure.cell_line is None:
        return rows
    source = failure.source.splitlines()
    first = max(1, failure.cell_line - _CONTEXT_LINES)
    last = min(len(source), failure.cell_line + 1)
    rows.append(("Line", f"{failure.cell_line} of the cell"))
    for number in range(first, last + 1):
        mark = ">" if number == failure.cell_line else " "
        rows.append(("", f"{mark} {number:>3}  {source[number - 1]}"))
    return rows


def _offers(actions: Iterable[ActionView]) -> list[str]:
    offers = [action for action in actions if action.code and action.submit is not None]
    width = max((len(action.code or "") for action in offers), default=0)
    return [f"{action.code or '':<{width}}   {action.eta_text or ''}" for action in offers]


def ways_on(view: PodGroupView) -> list[Row]:
    """Return what the person can type next."""
    is_lease = view.kind in LEASE_KINDS
    if view.state in TERMINAL_STATES:
        return [("Value", f'gang("{view.name}").result()')] if view.results else []
    if view.state == "Waiting":
        cancel = "%gpu release" if is_lease else f"%gang stop {view.name}"
        why = "%gpu why" if is_lease else f"%gang why {view.name}"
        return [("Cancel", cancel), ("Reasons", why)]
    if is_lease:
        return [("Release", "%gpu release")]
    return [("Output", f"%gang logs {view.name}"), ("Stop", f"%gang stop {view.name}")]


def explain_text(view: ExplainView) -> str:
    """Return why a group stands as it does: each reason a fact and one thing to do."""
    lines = [view.headline]
    for number, item in enumerate(view.items, 1):
        action = ""
        if item.action is not None:
            wait = f" ({item.action.eta_text})" if item.action.eta_text else ""
            action = f"  → {item.action.code or item.action.label}{wait}"
        lines.append(f"{number}  {item.title}. {item.text}{action}")
    lines += laid_out(
        ("Helps", f"{offer.code or offer.label}   {offer.eta_text or ''}")
        for offer in view.would_help
    )
    return "\n".join(lines)


def asking_text(forecasts: Iterable[ForecastView]) -> str:
    """Return the choices with what each would get now."""
    known = list(forecasts)
    rows = [(f.request.text, memory_text(f.request.share_mib), f.text) for f in known]
    amount, memory = (max((len(r[n]) for r in rows), default=0) for n in (0, 1))
    lines = ["This notebook holds no GPU. Ask with %gpu AMOUNT, for example %gpu 0.5"]
    lines += [f"{a:<{amount}}   {m:<{memory}}   {t}" for a, m, t in rows]
    if any(f.simulated for f in known):
        lines.append("The GPUs are simulated.")
    return "\n".join(lines)


def list_text(views: Iterable[PodGroupView]) -> str:
    """Return groups as a table, newest first."""
    rows = [(v.name, v.word, f"{v.workers} {TIMES} {v.request.text}", v.headline) for v in views]
    if not rows:
        return "No gangs yet. Write %%gang -n 4 on top of a cell."
    widths = [max(len(r[n]) for r in rows) for n in range(3)]
    return "\n".join(
        "   ".join([*(f"{cell:<{widths[n]}}" for n, cell in enumerate(r[:3])), r[3]]).rstrip()
        for r in rows
    )
