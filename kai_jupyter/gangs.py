"""Gangs: a cell or a function run by N workers that start together; their output, first failure and values.

`%%gang` and `@gang(n=4)` make one and return its handle at once; `gang("name")` finds it again, after a restart too.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, overload

from kai_jupyter.capture import Captured, capture_function
from kai_jupyter.client import signing_key
from kai_jupyter.durations import seconds
from kai_jupyter.errors import GangFailed, KaiJupyterError, UsageError, WaitInterrupted
from kai_jupyter.handles import Handle, encode_json
from kai_jupyter.session import Session, current
from kai_jupyter.surroundings import chosen, work_of
from kai_jupyter.text import failure_lines
from scheduler_service.wire.pod_group import (
    LEASE_KINDS,
    TERMINAL_STATES,
    PodGroupView,
    Submit,
)
from scheduler_service.wire.signing import is_signed_result, sign_work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kai_jupyter.widgets.card import KaiCard

FOLLOW_S = 20.0
CARD_LINES = 500


class Gang(Handle):
    """N workers. `wait()`, `result()` or `await` it; it goes on if the kernel ends."""

    def __init__(self, session: Session, view: PodGroupView, out: Sequence[str] = ()) -> None:
        super().__init__(session, view)
        self._out = tuple(out)
        self._values: dict[int, dict[str, Any]] = {}
        self.is_delivered = not out
        self._feeds_card = False

    # -- waiting and values -----------------------------------------------------------------------------------------
    def wait(self, timeout: float | None = None, *, echo: bool = True) -> Gang:
        """Wait for the end, printing the output of rank 0 meanwhile. Raises `GangFailed` with the first failure.

        Ctrl-C stops waiting, never the gang.
        """
        try:
            if echo and timeout is None:
                self.stream()
            if not self.wait_until(_is_over, timeout):
                raise TimeoutError(f"Not finished within {timeout:g} s. {self.view.sentence}")
        except KeyboardInterrupt:
            raise WaitInterrupted(
                f'{self.name} goes on. gang("{self.name}").wait() waits again; %gang stop {self.name} ends it.'
            ) from None
        self._raise_failure()
        return self

    def stream(self, rank: int = 0) -> None:
        """Print the output of one rank, from its beginning, until the gang has ended."""
        after = 0
        while True:
            page = self._session.client.logs(
                self.view.namespace, self.name, rank=rank, after=after, wait_s=FOLLOW_S
            )
            for line in page.lines:
                print(line.text, file=sys.stderr if line.stream == "stderr" else sys.stdout)
            after = page.next
            if page.ended and not page.lines:
                return

    def stream_in_background(self) -> None:
        """Print the output of rank 0 under the cell that started the gang, while other cells run."""

        def follow() -> None:
            with contextlib.suppress(KaiJupyterError):
                self.stream()

        here = contextvars.copy_context()  # the kernel knows by it to which cell the lines belong
        threading.Thread(
            target=here.run, args=(follow,), name=f"kai-output-{self.name}", daemon=True
        ).start()

    def result(self, timeout: float | None = None, *, rank: int = 0) -> Any:
        """Wait for the end and return what came back: a function's value, or the `--out` values (one, or a tuple).

        The values are checked against your signature before they are unpacked.
        """
        self.wait(timeout, echo=False)
        values = self.values(rank=rank)
        names = self._out or tuple(item.name for item in self.view.results)
        found = tuple(values[name] for name in names if name in values) or tuple(values.values())
        if not found:
            return None
        return found[0] if len(found) == 1 else found

    def values(self, *, rank: int = 0) -> dict[str, Any]:
        """Return the values of a rank by name, fetched once."""
        if rank not in self._values:
            self._values[rank] = self._fetched(rank)
        return self._values[rank]

    def _fetched(self, rank: int) -> dict[str, Any]:
        answer = self._session.client.result(self.view.namespace, self.name, rank=rank)
        pod = next((pod for pod in self.view.pods if pod.rank == rank), None)
        expected = answer.incarnation if pod is None else pod.incarnation or answer.incarnation
        if not is_signed_result(signing_key(), expected, answer.body, answer.signature):
            raise GangFailed(
                f"The result of {self.name} does not carry your signature, so it was not unpacked. "
                "Run the gang again from this notebook."
            )
        import cloudpickle

        whole = cloudpickle.loads(answer.body)
        values: dict[str, Any] = whole.get("values", {})
        return values

    def deliver(self, namespace: dict[str, Any]) -> None:
        """Set the `--out` values in the notebook, once, after the gang has succeeded."""
        if self.is_delivered or self.view.state != "Succeeded":
            return
        self.is_delivered = True
        values = self.values()
        namespace.update({name: values[name] for name in self._out if name in values})

    def _raise_failure(self) -> None:
        if self.view.state == "Succeeded":
            return
        lines = [self.view.sentence]
        if self.view.failure is not None:
            lines += failure_lines(self.view.failure)
            lines += ["", self.view.failure.traceback.rstrip()]
        raise GangFailed("\n".join(lines))

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.to_thread(self.result).__await__()

    def stop(self) -> PodGroupView:
        """End the gang: asked to end first, killed after its grace."""
        return self.cancel(reason="stopped")

    # -- output on the card where the page cannot fetch it itself ---------------------------------------------------
    def _carry_out(self, action: str, message: dict[str, Any]) -> None:
        """Feed the card with output as it comes, where no server of the page could be asked for it."""
        if action != "logs" or self._card is None:
            super()._carry_out(action, message)
        elif not self._feeds_card:
            self._feeds_card = True
            threading.Thread(target=self._feed, args=(self._card,), daemon=True).start()

    def _feed(self, card: KaiCard) -> None:
        after = 0
        with contextlib.suppress(KaiJupyterError):
            while True:
                page = self._session.client.logs(
                    self.view.namespace, self.name, after=after, wait_s=FOLLOW_S
                )
                if page.lines:
                    card.send({"kind": "logs", "page": encode_json(page)})
                after = page.next
                if page.ended and not page.lines:
                    return

    def on_change(self, before: PodGroupView, after: PodGroupView) -> None:
        """Bring the last lines to the card when the gang ends: a saved notebook then has them."""
        if self._card is None or after.state not in TERMINAL_STATES or before.state == after.state:
            return
        try:
            page = self._session.client.logs(after.namespace, after.name, tail=CARD_LINES)
        except KaiJupyterError:
            return
        self._card.logs = encode_json(page)["lines"]


def _is_over(view: PodGroupView) -> bool:
    return view.state in TERMINAL_STATES


def submit_gang(
    session: Session,
    captured: Captured,
    *,
    workers: int,
    options: Mapping[str, Any],
) -> Gang:
    """Upload what was captured, sign the work and submit the gang."""
    stored = session.client.upload_payload(captured.payload)
    place = session.cluster_ask(options.get("cluster"))
    work = work_of(stored.sha256, place)
    ask = Submit(
        kind="gang",
        workers=workers,
        work=work,
        signature=sign_work(signing_key(), work),
        origin=session.origin,
        **{**options, "cluster": place},
    )
    handle = Gang(session, session.client.submit(ask), captured.out)
    session.follow(handle)
    return handle


def find_gang(session: Session, name: str) -> Gang:
    """Return the handle of a gang by its name ("name" or "namespace/name")."""
    namespace, last = session.place_of(name)
    known = session.handle_of(f"{namespace}/{last}")
    if isinstance(known, Gang):
        return known
    view = session.client.group(namespace, last)
    if view.kind in LEASE_KINDS:
        raise UsageError(f"{last} is a lease, not a gang. %gpu shows it.")
    handle = Gang(session, view)
    session.follow(handle)
    return handle


class GangFunction:
    """A function that runs on N workers when it is called; the call returns the gang's handle at once."""

    def __init__(
        self, function: Callable[..., Any], workers: int, options: Mapping[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._workers = workers
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Gang:
        """Start a gang whose workers each call the function with these arguments."""
        captured = capture_function(self._function, args, kwargs)
        return submit_gang(current(), captured, workers=self._workers, options=self._options)

    def local(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here, without a gang."""
        return self._function(*args, **kwargs)


@overload
def gang(which: str, /) -> Gang: ...
@overload
def gang(
    which: None = None,
    /,
    *,
    n: int,
    gpu: str | float | None = None,
    memory: str | None = None,
    queue: str | None = None,
    name: str | None = None,
    lasts: str | None = None,
    **more: Any,
) -> Callable[[Callable[..., Any]], GangFunction]: ...
def gang(
    which: str | None = None,
    /,
    *,
    n: int | None = None,
    gpu: str | float | None = None,
    memory: str | None = None,
    lasts: str | None = None,
    **more: Any,
) -> Gang | Callable[[Callable[..., Any]], GangFunction]:
    """Find a gang again: `gang("sweep")`. Or make a function run on workers: `@gang(n=4, gpu=0.25)`.

    `memory` is GPU memory ("8GiB") instead of `gpu`, `lasts` how long it may run ("2h"); `queue`, `name`, `priority`,
    `preemptible`, `min_members` and `grace_s` are those of a request. In a cluster also `profile`, `image`, `folder`,
    `namespace`, and `workload="pytorchjob"` (or "rayjob", "trainjob") for what is made of it.
    """
    if which is not None:
        return find_gang(current(), which)
    if n is None:
        raise UsageError(
            'Say how many workers: @gang(n=4, gpu=0.25). To find a gang again: gang("name").'
        )
    cluster, more = chosen(more)
    options = {
        "gpu": gpu,
        "gpu_memory": memory,
        "declared_run_s": None if lasts is None else seconds(lasts, "lasts"),
        "cluster": cluster,
        **more,
    }
    return lambda function: GangFunction(function, n, options)
