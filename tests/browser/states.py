"""One view of each state of the card, as the service sends them; the words are those of the mock-ups."""

from __future__ import annotations

import time
from dataclasses import replace

from scheduler_service.wire.explain import ForecastView
from scheduler_service.wire.pod_group import (
    ActionId,
    ActionView,
    DeviceShare,
    EtaView,
    FailureView,
    PodGroupView,
    PodView,
    Progress,
    RequestView,
    ResultItem,
    Submit,
    TimelineEntry,
)

NOW = int(time.time() * 1000)
MINUTE = 60_000
HALF = RequestView(text="0.5 GPU", fraction_milli=500, share_mib=40960)
SHARE = DeviceShare(
    id="GPU-2", index=2, model="H100", memory_mib=81920, milli=500, share_mib=40960, simulated=False
)


def action(
    id_: ActionId, label: str, eta: str | None = None, code: str | None = None
) -> ActionView:
    """Return one thing that can be done."""
    return ActionView(id=id_, label=label, eta_text=eta, code=code)


WAITING = PodGroupView(
    namespace="ana",
    name="lease",
    owner="ana",
    mine=True,
    kind="lease",
    queue="vision-foundation-models-evaluation",
    request=HALF,
    workers=1,
    min_members=1,
    priority=100,
    preemptible=False,
    state="Waiting",
    word="Waiting",
    tone="wait",
    icon="hourglass",
    headline="Position 3 of 7. About 6 min (4 to 11).",
    detail="Team-a uses 7.75 of 8 GPUs; 0.5 more makes 8.25.",
    sentence="",
    rev=1,
    created_at=NOW - 6 * MINUTE,
    actions=(
        action("smaller", "0.25 GPU, 20 GiB", "now"),
        action("smaller", "0.5 GPU that may be taken back", "now"),
        action("why", "Why"),
        action("cancel", "Cancel"),
    ),
    position=3,
    waiting_in_queue=7,
    eta=EtaView(
        earliest_at=NOW + 4 * MINUTE,
        likely_at=NOW + 6 * MINUTE,
        latest_at=NOW + 11 * MINUTE,
        basis="declared",
        text="about 6 min (4 to 11)",
    ),
    pods=(PodView(name="lease-0", rank=0, state="Pending"),),
    timeline=(TimelineEntry(at=NOW - 6 * MINUTE, text="Asked: position 5 of 8"),),
)
GRANTED = replace(
    WAITING,
    state="Running",
    word="Granted",
    tone="ok",
    icon="tick",
    headline="0.5 GPU on gpu-worker-eu-west-17 until 14:00 (40 GiB)",
    detail="Queue team-a, waited 12 min.",
    granted_at=NOW,
    expires_at=NOW + 204 * MINUTE,
    eta=None,
    position=None,
    notes=("memory not enforced", "CPU not limited"),
    actions=(
        action("release", "Release", code="%gpu release"),
        action("extend", "Extend 1 h", code="%gpu extend 1h"),
    ),
    pods=(PodView(name="lease-0", rank=0, state="Running", node="gpu-3", devices=(SHARE,)),),
)
IDLE = replace(
    GRANTED,
    word="Idle 15 min",
    tone="wait",
    icon="moon",
    headline="The GPU has done nothing since 12:05.",
    detail="3 requests wait in team-a; the first would start at once.",
    actions=(action("release", "Release"), action("extend", "Keep 30 min")),
)
LOST = replace(
    WAITING,
    state="Evicted",
    word="Lost",
    tone="stop",
    icon="cross",
    eta=None,
    headline="Your GPU was taken back at 13:58. Variables are gone; files are safe.",
    detail="Queue team-b asked for GPUs within its quota.",
    actions=(action("ask_again", "Ask again", "about 9 min"), action("smaller", "0.25 GPU", "now")),
)
NEVER = replace(
    WAITING,
    word="Cannot start",
    tone="stop",
    icon="octagon",
    eta=None,
    headline="Cannot fit: largest node has 8 GPUs, you asked for 16 on one node.",
    detail="",
    actions=(action("smaller", "8 GPUs on one node", "about 2 h"), action("cancel", "Cancel")),
)
CHECKING = replace(
    WAITING,
    word="Checking",
    tone="mute",
    icon="dots",
    eta=None,
    headline="Checking your quota.",
    detail="",
    actions=(action("cancel", "Cancel"),),
)
STARTING = replace(
    WAITING,
    state="Starting",
    word="Starting",
    tone="run",
    icon="arrow",
    eta=None,
    headline="Starting on gpu-3.",
    detail="",
    actions=(action("cancel", "Cancel"),),
)
TAKEN_BACK_SOON = replace(
    GRANTED,
    state="Stopping",
    word="Taken back in 2 min",
    tone="stop",
    icon="bell",
    headline="For team-b (their guarantee).",
    detail="Save now; the files stay.",
    actions=(),
)
RELEASED = replace(
    WAITING,
    state="Succeeded",
    word="Released",
    tone="mute",
    icon="check",
    eta=None,
    headline="Released. 2.4 GPU-hours used.",
    detail="",
    actions=(action("ask_again", "Ask again"),),
)


def gang(workers: int, fitting: int) -> PodGroupView:
    """Return a gang that waits."""
    return replace(
        WAITING,
        name="sweep-lr",
        kind="gang",
        workers=workers,
        min_members=workers,
        icon="squares",
        headline=f"{fitting} of {workers} workers fit. Starts when all {workers} do.",
        detail="Two more workers need 1 GPU; a lease of 1 GPU in team-a ends at 09:52.",
        actions=(action("why", "Why"), action("cancel", "Cancel")),
        pods=tuple(
            PodView(name=f"sweep-lr-{rank}", rank=rank, state="Pending", fits=rank < fitting)
            for rank in range(workers)
        ),
    )


def _running(rank: int) -> PodView:
    step = 1202 if rank == 3 else 1240
    progress = Progress(step=step, total=3200, metrics={"loss": 0.2981}, at=NOW)
    return PodView(
        name=f"sweep-lr-{rank}",
        rank=rank,
        state="Running",
        node="gpu-3",
        devices=(SHARE,),
        progress=progress,
    )


RUNNING = replace(
    gang(8, 8),
    state="Running",
    word="Running",
    tone="run",
    icon="triangle",
    eta=None,
    headline="8 of 8 workers run. Step 1,240 of 3,200.",
    detail="Worker 3 is 38 steps behind.",
    granted_at=NOW,
    actions=(action("logs", "Logs"), action("cancel", "Stop")),
    pods=tuple(_running(rank) for rank in range(8)),
)
FAILED = replace(
    RUNNING,
    state="Failed",
    word="Failed",
    tone="stop",
    icon="cross",
    headline="Worker 5 failed first, at 10:47:12. The other 7 were stopped with it.",
    detail="It asked for 41.3 GiB of GPU memory; its share has 40 GiB.",
    actions=(action("ask_again", "Ask again", "now"),),
    pods=tuple(
        PodView(
            name=f"sweep-lr-{rank}",
            rank=rank,
            state="Failed",
            signal=None if rank == 5 else "SIGTERM",
        )
        for rank in range(8)
    ),
    failure=FailureView(
        rank=5,
        at=NOW,
        message="OutOfMemoryError: 41.3 GiB needed at step 1,790, limit 40 GiB",
        traceback='Traceback (most recent call last):\n  File "cell", line 6, in <module>\n',
        cell_line=6,
        source="model = Backbone(cfg)\nloader = shard(train)\nfor step, (x, y) in enumerate(loader):\n"
        "    out = model(x.cuda())\n    update(model)\n    loss = criterion(out, y.cuda())\n    report(step)\n",
    ),
)
RESULT = replace(
    RUNNING,
    state="Succeeded",
    word="Result ready",
    tone="ok",
    icon="tick",
    headline="All 8 workers finished at 11:30. 4 GPUs are released.",
    detail="",
    results=(ResultItem(name="loss", text="float 0.2143", size=8),),
    actions=(action("result", "Result", code='loss = gang("sweep-lr").result()'),),
)
STATES = {
    "waiting": WAITING,
    "granted": GRANTED,
    "idle": IDLE,
    "lost": LOST,
    "never": NEVER,
    "checking": CHECKING,
    "starting": STARTING,
    "taken back soon": TAKEN_BACK_SOON,
    "released": RELEASED,
    "gang waiting": gang(8, 6),
    "gang of 64": replace(gang(64, 51), name="pretrain-l"),
    "gang running": RUNNING,
    "gang failed": FAILED,
    "gang result": RESULT,
}
VERDICTS = (
    ("0.25", 250, 20480, "now", "now"),
    ("0.5", 500, 40960, "about", "about 6 min (4 to 11)"),
    ("2", 0, 163840, "never", "never: team-a allows 1 GPU for a notebook"),
)


def choices() -> list[tuple[str, ForecastView, Submit]]:
    """Return what the card that asks offers."""
    return [
        (
            gpu,
            ForecastView(
                verdict=verdict,
                text=text,
                queue="team-a",
                request=RequestView(text=f"{gpu} GPU", fraction_milli=milli, share_mib=share),
                workers=1,
                position=3 if verdict == "about" else None,
                waiting_in_queue=7,
            ),
            Submit(kind="lease", gpu=gpu),
        )
        for gpu, milli, share, verdict, text in VERDICTS
    ]
