"""Keeps a lead's page fresh in a kernel while somebody looks at it, and passes on what they want.

Rules: 1. No widget here: pages and answers are handed to whoever made the feed. 2. The service is listened to only
while a page says that it is looked at, so a forgotten kernel is idle and can be culled. 3. A page's wish goes to the
service as it is; the service alone knows what is allowed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from kai_jupyter import calls
from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiJupyterError
from kai_jupyter.transport import checked, timeout

NOBODY_LOOKS_S = 15.0
"""A page says every few seconds that it is looked at."""
FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 15.0
Page = dict[str, Any]


class TeamFeed:
    """The page of a lead, as it changes. `on_page` gets each page, `on_trouble` why there is none ("" = there is)."""

    def __init__(
        self,
        client: AsyncKaiClient,
        *,
        on_page: Callable[[Page], None],
        on_trouble: Callable[[str], None],
        nobody_looks_s: float = NOBODY_LOOKS_S,
    ) -> None:
        self._client = client
        self._on_page = on_page
        self._on_trouble = on_trouble
        self._nobody_looks_s = nobody_looks_s
        self._looked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_listening(self) -> bool:
        """Whether the service is listened to now."""
        return self._task is not None and not self._task.done()

    def look(self) -> None:
        """Note that somebody looks; listen, if that was not done already."""
        self._looked.set()
        if not self.is_listening:
            self._task = asyncio.get_running_loop().create_task(self._while_looked_at())

    async def first(self) -> None:
        """Hand on the page as it is now, once."""
        try:
            answer = checked(await self._client.raw("GET", f"{calls.API}/team"))
        except KaiJupyterError as error:
            self._on_trouble(str(error))
        else:
            self._on_page(answer.json())

    async def close(self) -> None:
        """Stop listening and let the connections go."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._client.close()

    async def _while_looked_at(self) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                self._looked.clear()
                await asyncio.wait_for(self._looked.wait(), self._nobody_looks_s)
        except TimeoutError:
            return
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

    async def _listen(self) -> None:
        wait_s = FIRST_RETRY_S
        while True:
            trouble = "The queue closed the connection; it may be restarting."
            try:
                async for page in self._client.team_pages():
                    wait_s = FIRST_RETRY_S
                    self._on_trouble("")
                    self._on_page(page)
            except KaiJupyterError as error:
                trouble = str(error)
            self._on_trouble(trouble)
            await self._client.forget()
            await asyncio.sleep(wait_s)
            wait_s = min(LONGEST_RETRY_S, wait_s * 2)

    # -- wishes ------------------------------------------------------------------------------------
    async def what_if(self, wish: object) -> object:
        """Return what a change would do."""
        return await self._post("what-if", wish)

    async def change(self, wish: object) -> object:
        """Make a change and return it."""
        return await self._post("changes", wish)

    async def undo(self, wish: object) -> object:
        """Take a change back and return it."""
        asked = wish if isinstance(wish, dict) else {}
        return await self._post(
            f"changes/{int(asked.get('number', 0))}/undo", {"reason": str(asked.get("reason", ""))}
        )

    async def csv(self, wish: object) -> object:
        """Return a list of the page as CSV, with a name for the file."""
        table = str(wish.get("table", "waiting")) if isinstance(wish, dict) else "waiting"
        path = f"{calls.API}/team/csv"
        answer = checked(await self._client.raw("GET", path, params={"table": table}))
        return {"name": f"kai-{table}.csv", "text": answer.text}

    async def _post(self, path: str, body: object) -> object:
        where = f"{calls.API}/team/{path}"
        answer = await self._client.raw("POST", where, json=body, timeout=timeout(60.0))
        return checked(answer).json()
