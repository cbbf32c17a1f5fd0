"""What all our spawners share: the choice, the place in the queue, the six stages, and giving everything back.

Rules: 1. Waiting in the queue is not starting: it comes before `start`, so no start time-out counts it.
2. What is chosen lives in `user_options` and is read anew at each start; no trait is changed, so nothing leaks.
3. Whatever ends a start or a server gives the place or the GPU back; only a start that fails keeps it for a retry.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from jupyterhub.spawner import Spawner
from jupyterhub.utils import maybe_future, url_escape_path, url_path_join
from traitlets import Bool, List, Unicode, default

from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiRequestError, NotGranted, UsageError
from kai_jupyter.finding import Endpoint
from kai_jupyter.hub import options, tokens
from kai_jupyter.hub.forecasts import Picture, picture
from kai_jupyter.hub.forms import form_of
from kai_jupyter.hub.options import CPU, Chosen, Offer
from kai_jupyter.hub.place import GONE, Place, now_ms
from kai_jupyter.hub.refusing import NotStarted, refusal
from kai_jupyter.hub.stages import GRANTED, Act, Course, Standing, follow
from kai_jupyter.kernel_lease import process_of
from scheduler_service.wire import locate
from scheduler_service.wire.pod_group import PodGroupView, Process

CPU_ACT = Act(label="Start on CPU now", options={"share": CPU})
RETRY_S = 60
"""What a failed start was granted is kept so long for a retry."""
NO_URL = "http://127.0.0.1:8890"


_later: set[asyncio.Task[None]] = set()


class KaiSpawning(Spawner):
    """Start servers on a share of a GPU. Mixed in front of a spawner that knows how to start processes or pods."""

    kai_url = Unicode(help="Address of the scheduler service.").tag(config=True)
    kai_token_file = Unicode(
        "",
        help="A file with the hub's own token for the service. Empty: each person's hub token is used.",
    ).tag(config=True)
    kai_shares: List[Any] = List(
        [], help="Amounts offered: 'cpu', '0.5', or {'gpu': '0.5', 'cpu': 8, 'memory': '32GiB'}."
    ).tag(config=True)
    kai_profiles: List[Any] = List(
        [], help="Environments offered: {'name': …, 'title': …, 'image': …, 'cmd': […]}."
    ).tag(config=True)
    kai_takes_memory = Bool(
        default_value=True, help="Whether GPU memory may be asked for instead of a share."
    ).tag(config=True)

    @default("kai_url")
    def _kai_url_default(self) -> str:
        lock = locate.read_lock(locate.state_dir())
        return os.environ.get("KAI_SERVICE_URL") or (lock.url if lock else NO_URL)

    @default("options_form")
    def _options_form_default(self) -> Any:
        return form_of

    @default("options_from_form")
    def _options_from_form_default(self) -> Any:
        return options.chosen_in

    @default("apply_user_options")
    def _apply_user_options_default(self) -> Any:
        return _refuse_the_impossible

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kai_course = Course("Your server starts", now_ms())
        self._kai_place: Place | None = None
        self._kai_other: asyncio.Future[Chosen] | None = None
        self._kai_pulse = asyncio.Event()
        self._kai_client: tuple[str, AsyncKaiClient] | None = None

    # -- what can be chosen, and what was -------------------------------------------------------------------------
    @property
    def kai_offer(self) -> Offer:
        """Everything that can be chosen here."""
        return options.offer_of(
            self.kai_shares, self.kai_profiles, takes_memory=self.kai_takes_memory
        )

    @property
    def kai_chosen(self) -> Chosen:
        """What was chosen for this start. Raises a refusal for what is not offered."""
        try:
            return options.understood(self.user_options, self.kai_offer)
        except UsageError as error:
            raise self.kai_refusal(str(error), reason="kai_options", status_code=400) from None

    async def kai_picture(self, chosen: Chosen) -> Picture:
        """Return when each choice would start, for the page."""
        return await picture(await self.kai_client(), self.kai_offer, chosen, now=now_ms())

    def kai_refusal(self, sentence: str, *, reason: str, status_code: int = 403) -> NotStarted:
        """Return a refusal that offers a start on CPU."""
        acts = [CPU_ACT] if self.kai_offer.has_cpu else []
        return refusal(
            sentence,
            reason=reason,
            acts=acts,
            spawn_url=self.kai_spawn_url,
            status_code=status_code,
        )

    @property
    def kai_spawn_url(self) -> str:
        """The start page of this server."""
        name = url_escape_path(self.name) if self.name else ""
        return str(url_path_join(self.hub.base_url, "spawn", self.user.escaped_name, name))

    # -- the scheduler --------------------------------------------------------------------------------------------
    async def kai_client(self) -> AsyncKaiClient:
        """Return the client that speaks for this server's person."""
        token = self._kai_token()
        if self._kai_client is not None and self._kai_client[0] == token:
            return self._kai_client[1]
        if self._kai_client is not None:
            await self._kai_client[1].close()
        client = AsyncKaiClient(Endpoint(url=self.kai_url.rstrip("/"), token=token))
        self._kai_client = (token, client)
        return client

    def _kai_token(self) -> str:
        if self.kai_token_file:
            with open(self.kai_token_file, encoding="ascii") as file:  # noqa: PTH123 - a small file
                return file.read().strip()
        return tokens.token_of(self.user)

    @property
    def kai_place(self) -> Place:
        """The place of this server, whether it holds one or not."""
        if self._kai_place is None:
            self._kai_place = Place(client=self.kai_client, key=f"server:{self.name}")
        return self._kai_place

    # -- the wait -------------------------------------------------------------------------------------------------
    async def run_pre_spawn_hook(self) -> None:
        """Wait for the GPU, however long; then JupyterHub starts the server under its usual time-outs."""
        await maybe_future(super().run_pre_spawn_hook())
        await self.kai_wait()

    async def kai_wait(self) -> None:
        """Wait until what was chosen is granted, or what was chosen instead meanwhile."""
        chosen = self.kai_chosen
        self.kai_course = Course(title_of_start(chosen), now_ms())
        while chosen.wants_gpu:
            other = await self._kai_granted_or_other(chosen)
            if other is None:
                return
            await self.kai_place.give_back("Something else was chosen.")
            self.kai_adopt(other)
            chosen = other
        self.kai_course.reach(GRANTED, now_ms())
        self.kai_tell("Starting on CPU.", "Ask for a GPU in any cell: %gpu 0.5.", acts=())

    async def _kai_granted_or_other(self, chosen: Chosen) -> Chosen | None:
        """Return None once it is granted, or what the person chose instead while it waited."""
        other = self._kai_other = asyncio.get_running_loop().create_future()
        wait = asyncio.ensure_future(self._kai_granted(chosen))
        try:
            await asyncio.wait({wait, other}, return_when=asyncio.FIRST_COMPLETED)
            if other.done() and not wait.done():
                return other.result()
            await wait
        finally:
            wait.cancel()
            self._kai_other = None
        return None

    async def _kai_granted(self, chosen: Chosen) -> None:
        place = self.kai_place
        place.is_away = self._kai_away
        process = self.kai_stand_in()
        ask = options.wanted(chosen, self.kai_offer, key=place.key, process=process)
        try:
            await place.ask(ask)
            await place.granted(self.kai_seen)
        except KaiRequestError as error:
            raise self.kai_refusal(str(error), reason=error.problem.code) from None
        except NotGranted as error:
            place.name = None
            raise self.kai_refusal(str(error), reason="kai_not_granted") from None

    def kai_stand_in(self) -> Process | None:
        """Return the process that holds the place until the server has one of its own: the hub's."""
        return process_of(os.getpid())

    def kai_choose(self, chosen: dict[str, str]) -> bool:
        """Take another choice while it waits; False if it does not wait (any more)."""
        other = self._kai_other
        if other is None or other.done():
            return False
        kept = {"profile": self.user_options.get("profile", "")}
        other.set_result(options.understood({**kept, **chosen}, self.kai_offer))
        return True

    def kai_adopt(self, chosen: Chosen) -> None:
        """Make another choice the one of this start, and the one remembered."""
        self.user_options = chosen.as_options()
        self.orm_spawner.user_options = self.user_options
        self.db.commit()
        self.kai_tell("Asking.", "", title=title_of_start(chosen), acts=())

    # -- what is told ---------------------------------------------------------------------------------------------
    @property
    def kai_standing(self) -> Standing:
        """How far the start is."""
        return self.kai_course.standing

    def kai_tell(self, headline: str, detail: str = "", **changes: Any) -> None:
        """Say how far the start is."""
        self.kai_course.tell(headline, detail, **changes)
        self._kai_told()

    def _kai_told(self) -> None:
        pulse, self._kai_pulse = self._kai_pulse, asyncio.Event()
        pulse.set()

    def kai_seen(self, view: PodGroupView) -> None:
        """Take in how the request stands, and tell it."""
        follow(self.kai_course, view, now_ms())
        is_waiting = view.state == "Waiting"
        chosen = options.understood(self.user_options, self.kai_offer)
        title = (
            f"Your server waits for {options.title_of(chosen)}"
            if is_waiting
            else title_of_start(chosen)
        )
        acts = self._kai_acts(view) if is_waiting else ()
        standing = self.kai_standing
        self.kai_tell(standing.headline, standing.detail, title=title, acts=acts)

    def _kai_away(self, for_s: float) -> None:
        last = self.kai_place.view
        known = (
            f"Last known: {last.headline}" if last is not None else "It is asked again and again."
        )
        acts = (CPU_ACT,) if self.kai_offer.has_cpu else ()
        self.kai_tell(f"The queue has not answered for {for_s:.0f} s.", known, acts=acts)

    def _kai_acts(self, view: PodGroupView) -> tuple[Act, ...]:
        """Return what can be had instead: the CPU, and what the scheduler found to start sooner."""
        acts = [CPU_ACT] if self.kai_offer.has_cpu else []
        for action in view.actions:
            ask = action.submit
            share = None if ask is None or ask.gpu is None else self.kai_offer.share(str(ask.gpu))
            if ask is None or share is None or action.id not in {"smaller", "switch_queue"}:
                continue
            chosen = Chosen(
                share=share.id,
                queue=ask.queue or "",
                priority=options.YIELDING if ask.preemptible else options.USUAL,
            )
            acts.append(
                Act(label=action.label, when=action.eta_text or "", options=chosen.as_options())
            )
        return tuple(acts)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Yield how far the start is, whenever that changes. JupyterHub ends it with the start."""
        told: Standing | None = None
        while self._spawn_pending:
            pulse, standing = self._kai_pulse, self.kai_standing
            if standing != told:
                told = standing
                yield standing.event()
                continue
            await pulse.wait()

    # -- what the spawner behind this one does (JupyterHub wants each spawner to have these) ------------------------
    async def start(self) -> Any:
        """Start the server; return its address."""
        return await maybe_future(super().start())

    async def stop(self, now: bool = False) -> None:  # noqa: FBT001, FBT002 - JupyterHub's signature
        """Stop the server."""
        await maybe_future(super().stop(now))

    async def poll(self) -> Any:
        """Return None while the server runs, else how it ended."""
        return await maybe_future(super().poll())

    # -- the end --------------------------------------------------------------------------------------------------
    async def run_post_stop_hook(self) -> None:
        """Give back what the server held; a start that failed keeps its GPU a minute, for a retry."""
        coming = self._spawn_future
        has_failed = coming is not None and not coming.done()
        if has_failed and self.kai_standing.stage >= GRANTED:
            later = asyncio.create_task(self._kai_give_back_later())
            _later.add(later)
            later.add_done_callback(_later.discard)
        else:
            await self.kai_give_back("The server ended.")
        if self._kai_client is not None:
            await self._kai_client[1].close()
            self._kai_client = None
        await maybe_future(super().run_post_stop_hook())

    async def _kai_give_back_later(self) -> None:
        """Give back what a failed start holds, unless it is tried again meanwhile: that start takes it up."""
        await asyncio.sleep(RETRY_S)
        now = self.user.spawners.get(self.name)
        if now is None or not now.active:
            await self.kai_give_back("The start failed.")

    async def kai_give_back(self, reason: str) -> None:
        """Give back what the server holds or waits for."""
        trouble = await self.kai_place.give_back(reason)
        if trouble:
            self.log.warning("kai: what %s held may still be held: %s", self._log_name, trouble)

    async def delete_forever(self) -> None:
        """Give everything back: of a named server what it held, of a person all they asked for."""
        await maybe_future(super().delete_forever())
        if self.kai_token_file:
            return  # the hub speaks for itself there: what it sees is everybody's
        client = await self.kai_client()
        listed = await client.groups(mine=True)
        for view in listed.items:
            is_its = view.origin.kernel_id == self.kai_place.key and view.kind == "server"
            if view.state not in GONE and (not self.name or is_its):
                await client.cancel(view.namespace, view.name, reason="The hub's user is deleted.")
        if not self.name:
            tokens.forget(self.user)
        await client.close()
        self._kai_client = None

    def get_state(self) -> dict[str, Any]:
        """Return what a restarted hub needs to know: which group the server holds."""
        state: dict[str, Any] = super().get_state()
        if self.kai_place.name is not None:
            state["kai_group"] = list(self.kai_place.name)
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up what a hub before this one wrote down."""
        super().load_state(state)
        group = state.get("kai_group")
        if isinstance(group, list) and len(group) == 2:  # noqa: PLR2004 - namespace and name
            self.kai_place.name = (str(group[0]), str(group[1]))

    def get_env(self) -> dict[str, str]:
        """Return the server's variables: where the scheduler is, and that its hub token tells who it is."""
        env: dict[str, str] = super().get_env()
        env["KAI_SERVICE_URL"] = self.kai_url
        env["KAI_IDENTITY"] = "hub"
        profile = self.kai_offer.profile(self.kai_chosen.profile)
        return env | dict(profile.environment if profile else {})

    def kai_page(self) -> dict[str, Any]:
        """Return what the pages need to know of this server."""
        return {"offer": asdict(self.kai_offer), "chosen": dict(self.user_options or {})}


async def _refuse_the_impossible(spawner: KaiSpawning, _options: dict[str, Any]) -> None:
    """Refuse, before anything is made, what waiting would not heal. A queue that is away refuses nothing."""
    chosen = spawner.kai_chosen
    if not chosen.wants_gpu:
        return
    shown = await spawner.kai_picture(chosen)
    row = next((row for row in shown.rows if row.id == chosen.share), None)
    if row is not None and row.verdict == "never":
        why = shown.told or row.about.removeprefix("Never: ")
        title = options.title_of(chosen)
        raise spawner.kai_refusal(f"{title} can not start. {why}", reason="kai_never")
    if chosen.queue and shown.queues and chosen.queue not in {row.name for row in shown.queues}:
        names = ", ".join(row.name for row in shown.queues)
        told = f"You may not ask in queue {chosen.queue}. Yours are: {names}."
        raise spawner.kai_refusal(told, reason="kai_queue")
    if not chosen.queue and shown.queue:
        spawner.user_options = {**spawner.user_options, "queue": shown.queue}


def title_of_start(chosen: Chosen) -> str:
    """Return the heading of a start that does not wait."""
    return f"Your server starts on {options.title_of(chosen)}"
