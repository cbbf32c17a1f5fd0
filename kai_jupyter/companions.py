"""The lease of a notebook beside a cluster: its pod, the companion, holds the device and runs what is sent to it.

Variables stay in the companion from cell to cell. What a cell reads and the notebook has goes along when it is
another than was sent before; what `--out` names comes back, checked against your signature.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kai_jupyter import calls
from kai_jupyter.capture import Captured, capture_cell, capture_function, names_read
from kai_jupyter.client import signing_key
from kai_jupyter.errors import (
    CellFailed,
    CellLost,
    KaiRequestError,
    NotGranted,
    ServiceUnreachable,
)
from kai_jupyter.leases import Lease
from kai_jupyter.text import cell_failure_lines
from scheduler_service.wire.companion import OVER, CellAsk, CellView
from scheduler_service.wire.pod_group import PodGroupView
from scheduler_service.wire.signing import is_signed_result, sign_cell

if TYPE_CHECKING:
    from kai_jupyter.session import Session

WAIT_S = 20.0
PAUSE_S = 1.0
UNKNOWN, AWAY = 404, 503
HOW = "Its pod runs beside this notebook. %%gpu on top of a cell runs the cell there."


class Companion(Lease):
    """A lease that is held by a pod. `run_cell` and `run` work in it; as a decorator it makes a function run there."""

    def __init__(self, session: Session, view: PodGroupView) -> None:
        super().__init__(session, view)
        self._sent: dict[str, str] = {}
        self._sent_to = ""

    def on_change(self, before: PodGroupView, after: PodGroupView) -> None:
        """Say how the device is used; this process itself gets none."""
        del before
        self.note = HOW if after.state == "Running" else ""

    def _give_if_late(self) -> None:
        """Give this process nothing: the device is the pod's."""

    # -- working -------------------------------------------------------------------------------------
    def run_cell(
        self,
        source: str,
        namespace: dict[str, Any],
        *,
        send: Sequence[str] | None = None,
        out: Sequence[str] = (),
        filename: str = "<cell>",
    ) -> None:
        """Run a cell in the companion, with its output here; set the `out` values in `namespace`.

        `send` names what goes along; without it that is what the cell reads and was not sent as it is now.
        """
        self.wait()
        self._forget_other_pods()
        names = self._unsent(source, namespace) if send is None else list(send)
        captured = capture_cell(source, namespace, send=names, out=out, filename=filename)
        values = self._run(captured)
        self._sent.update({n: _digest(namespace[n]) for n in captured.variables})
        namespace.update(values)
        self._sent.update({name: _digest(value) for name, value in values.items()})

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function in the companion and return its value."""
        self.wait()
        return self._run(capture_function(function, args, kwargs)).get("value")

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Make a function run in the companion: `@lease` above it."""

        @functools.wraps(function)
        def there(*args: Any, **kwargs: Any) -> Any:
            return self.run(function, *args, **kwargs)

        return there

    # -- what goes along -----------------------------------------------------------------------------
    def _forget_other_pods(self) -> None:
        incarnation = self._incarnation()
        if incarnation != self._sent_to:
            self._sent, self._sent_to = {}, incarnation

    def _incarnation(self) -> str:
        pods = self.view.pods
        found = pods[0].incarnation if pods else None
        if not found:
            self.refresh()
            found = self.view.pods[0].incarnation if self.view.pods else None
        if not found:
            raise NotGranted(self.view.sentence)
        return found

    def _unsent(self, source: str, namespace: Mapping[str, Any]) -> list[str]:
        """Return the variables that the cell reads and that the companion has not as they are here."""
        return [
            name
            for name in names_read(source, namespace)
            if name not in self._sent or self._sent[name] != _digest(namespace[name])
        ]

    # -- one cell ------------------------------------------------------------------------------------
    def _run(self, captured: Captured) -> dict[str, Any]:
        client, key = self._session.client, signing_key()
        digest = client.upload_payload(captured.payload).sha256
        cell, incarnation = uuid.uuid4().hex, self._incarnation()
        signature = sign_cell(key, incarnation, cell, digest)
        ask = CellAsk(id=cell, payload_sha256=digest, signature=signature)
        client.send(calls.run_cell(self.view.namespace, self.name, ask))
        view = self._followed(ask)
        self._raise_end(view)
        return self._values(view, incarnation) if view.results else {}

    def _followed(self, ask: CellAsk) -> CellView:
        """Print what the cell writes until it has ended. Ctrl-C interrupts the cell; a second one leaves it."""
        after, is_interrupted = 0, False
        while True:
            try:
                view = self._look(ask, after)
                for piece in view.output:
                    stream = sys.stderr if piece.stream == "stderr" else sys.stdout
                    stream.write(piece.text)
                    stream.flush()
                after = view.next
                if view.state in OVER and not view.output:
                    return view
            except KeyboardInterrupt:
                if is_interrupted:
                    raise
                is_interrupted = True
                call = calls.interrupt_cell(self.view.namespace, self.name, ask.id)
                self._session.client.send(call)

    def _look(self, ask: CellAsk, after: int) -> CellView:
        """Return how the cell stands. A service that is another now is given the cell again: it runs once."""
        client, place = self._session.client, (self.view.namespace, self.name)
        try:
            return client.send(calls.cell(*place, ask.id, after=after, wait_s=WAIT_S))
        except ServiceUnreachable:
            return self._later(ask, after)
        except KaiRequestError as error:
            if error.problem.status == AWAY:
                return self._later(ask, after)
            if error.problem.status != UNKNOWN:
                raise
        view = self.refresh()
        if self.is_over:
            raise CellLost(f"The cell is lost. {view.sentence}")
        return client.send(calls.run_cell(*place, ask))

    @staticmethod
    def _later(ask: CellAsk, after: int) -> CellView:
        """Wait a moment for a service that is away: the cell runs on."""
        time.sleep(PAUSE_S)
        return CellView(id=ask.id, state="running", incarnation="", next=after)

    def _raise_end(self, view: CellView) -> None:
        if view.state == "interrupted":
            raise KeyboardInterrupt
        if view.state == "lost":
            self._sent = {}
            self.refresh()
            end = f" {self.view.sentence}" if self.is_over or self.view.state == "Stopping" else ""
            raise CellLost(f"{view.text}{end}")
        if view.state == "failed":
            failure = view.failure
            lines = [] if failure is None else [*cell_failure_lines(failure), "", failure.traceback]
            raise CellFailed("\n".join(lines).rstrip() or "The cell failed.")

    def _values(self, view: CellView, incarnation: str) -> dict[str, Any]:
        place = self.view.namespace, self.name
        answer = self._session.client.result(*place, cell=view.id)
        signed = f"{incarnation}/{view.id}"
        if not is_signed_result(signing_key(), signed, answer.body, answer.signature):
            raise CellFailed(
                "The values do not carry your signature, so they were not unpacked. Run the cell again."
            )
        import cloudpickle

        values: dict[str, Any] = cloudpickle.loads(answer.body).get("values", {})
        return values


def _digest(value: Any) -> str:
    """Return what tells one value from another; "" for one that can not travel."""
    import cloudpickle

    try:
        return hashlib.sha256(cloudpickle.dumps(value)).hexdigest()
    except Exception:  # noqa: BLE001 - whatever a stranger's __reduce__ raises
        return ""
