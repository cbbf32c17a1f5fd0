"""`%gpu` and `%%gpu`: take, show, explain, extend and release the lease of this notebook; release others by name."""

from __future__ import annotations

import argparse
from typing import Any

from IPython.core.magic import Magics

from kai_jupyter.durations import seconds
from kai_jupyter.errors import KaiJupyterError, NotGranted, UsageError, WaitInterrupted
from kai_jupyter.magic_options import (
    cluster_options,
    documented,
    has_magics,
    has_options,
    line_or_cell,
    names,
    option,
    parsed,
    whole_number,
)

FOREVER = "forever"
CHOICES = ("0.25", "0.5", "1", "2")
_HOW = {
    "release": "%gpu release ends this notebook's lease, %gpu release NAME another one of yours.",
    "why": "%gpu why tells why this notebook's request waits.",
    "extend": "For example: %gpu extend 1h",
    "status": "%gpu status shows this notebook's lease.",
}
"""The commands, and how each is meant."""


class GpuCellFailed(KaiJupyterError):
    """The cell of a `%%gpu` failed; its own error was shown already."""


@has_magics
class GpuMagics(Magics):
    """The lease of this notebook."""

    @documented
    @option(
        "words",
        nargs="*",
        metavar="AMOUNT",
        help="a share such as 0.5, whole GPUs such as 1; or: release [NAME], why, extend 1h. Nothing: how it stands.",
    )
    @option("--memory", help="GPU memory instead of an amount, such as 8GiB")
    @option(
        "--devices",
        type=whole_number("--devices", 2),
        default=1,
        help="the stated part of so many different devices",
    )
    @option("--queue", help="the queue to ask in; default: yours")
    @option("--name", help="a name for the lease")
    @option("--for", dest="lasts", metavar="2h", help="the lease ends so long after the grant")
    @option(
        "--wait",
        nargs="?",
        const=FOREVER,
        metavar="10m",
        help="wait here for the grant; with a duration, give the place up after it",
    )
    @option(
        "--priority", type=whole_number("--priority", 100), help="higher first, inside the queue"
    )
    @option(
        "--preemptible",
        action=argparse.BooleanOptionalAction,
        help="may be taken back when another queue needs it",
    )
    @option(
        "--move",
        nargs="?",
        const="",
        metavar="KERNEL",
        help="move the notebook to a kernel with a GPU, with what it holds; says first what is lost",
    )
    @option(
        "--in",
        dest="send",
        metavar="a,b",
        help="in a cluster: variables to send; default: those the cell reads and the companion has not",
    )
    @option("--out", metavar="loss", default="", help="in a cluster: variables to bring back")
    @cluster_options
    @line_or_cell
    def gpu(self, line: str, cell: str | None = None) -> Any:
        """Ask for a GPU share for this notebook, or show, explain, extend and release it.

        On top of a cell: run the cell when the share is granted, and release it after.
        """
        return run_gpu(self.shell, parsed(self.gpu, line), cell)


def run_gpu(shell: Any, options: argparse.Namespace, cell: str | None) -> Any:
    """Do what the line says; return a handle where there is one."""
    from kai_jupyter.session import current

    session = current(shell)
    if options.move is not None:
        return _move(session, options, cell)
    word = options.words[0] if options.words else ""
    if cell is not None:
        return _run_cell(session, options, cell)
    if word in _HOW:
        _refuse_what_goes_unheard(word, options)
        return _obey(session, word, options.words[1:])
    if not word and options.memory is None:
        return _status(session)
    return _ask(session, options)


def _move(session: Any, options: argparse.Namespace, cell: str | None) -> Any:
    """Ask first if an amount was named, then show what moving means."""
    from kai_jupyter import moving

    if cell is not None or (options.words and options.words[0] in _HOW):
        raise UsageError("%gpu --move stands alone, or with an amount: %gpu 0.5 --move")
    lease = _ask(session, options) if options.words or options.memory else None
    moving.show(session, options.move)
    return lease


def _request(session: Any, options: argparse.Namespace) -> Any:
    from kai_jupyter.leases import lease_request
    from kai_jupyter.surroundings import CHOICES

    if len(options.words) > 1:
        raise UsageError(
            f"%gpu takes one amount; '{' '.join(options.words)}' are {len(options.words)}. For example: %gpu 0.5"
        )
    waits = options.wait if options.wait not in (None, FOREVER) else None
    return lease_request(
        session,
        amount=options.words[0] if options.words else None,
        memory=options.memory,
        options={
            "devices": options.devices,
            "queue": options.queue,
            "name": options.name,
            "priority": options.priority,
            "preemptible": options.preemptible,
            "lease_s": None if options.lasts is None else seconds(options.lasts, "--for"),
            "max_wait_s": None if waits is None else seconds(waits, "--wait"),
            **{name: getattr(options, name, None) for name in CHOICES},
        },
    )


def _ask(session: Any, options: argparse.Namespace) -> Any:
    from kai_jupyter.leases import take_lease

    lease = take_lease(session, _request(session, options))
    lease.settle()
    lease.show()
    if options.wait is not None:
        _wait(lease)
    return lease


def _wait(lease: Any) -> None:
    """Wait for the grant in the cell; Ctrl-C withdraws the request."""
    try:
        lease.wait()
    except KeyboardInterrupt:
        lease.release()
        raise WaitInterrupted(
            "The request was withdrawn; your place in the queue is free."
        ) from None


def _run_cell(session: Any, options: argparse.Namespace, cell: str) -> None:
    """Run `cell` once the lease is granted, and release it after; a lease that was held before is kept."""
    from kai_jupyter.leases import take_lease

    if not session.is_in_cluster and (options.send is not None or options.out):
        raise UsageError(
            "On this machine the cell runs in this notebook and sees its variables: leave out --in and --out."
        )
    held_before = session.resume()
    if held_before is not None and not (options.words or options.memory):
        lease = held_before
    else:
        lease = take_lease(session, _request(session, options))
    if not (session.is_in_cluster and lease is held_before and lease.is_granted):
        lease.settle()
        lease.show()
    try:
        _wait(lease)
        if session.is_in_cluster:
            _run_there(session, lease, options, cell)
            return
        result = session.shell.run_cell(cell)
    finally:
        if lease is not held_before and not lease.is_over:
            lease.release()
    if not result.success:
        raise GpuCellFailed("The cell failed; the share was released.")


def _run_there(session: Any, lease: Any, options: argparse.Namespace, cell: str) -> None:
    """Run the cell in the companion, with the variables that go and come."""
    lease.run_cell(
        cell,
        session.shell.user_ns,
        send=None if options.send is None else names(options.send),
        out=names(options.out),
        filename=f"Cell [{session.shell.execution_count}]",
    )


def _refuse_what_goes_unheard(word: str, options: argparse.Namespace) -> None:
    """Raise `UsageError` for what a command would pass over: it may say which lease was meant."""
    more = options.words[1:]
    if has_options(GpuMagics.gpu, options):
        raise UsageError(f"%gpu {word} takes no options. {_HOW[word]}")
    if len(more) > 1 and word == "release":
        raise UsageError(f"%gpu release takes one name; '{' '.join(more)}' are {len(more)}.")
    if more and word in ("why", "status"):
        raise UsageError(
            f"%gpu {word} takes nothing more; you wrote '{' '.join(more)}'. {_HOW[word]}"
        )


def _obey(session: Any, word: str, more: list[str]) -> Any:
    if word == "status":
        return _status(session)
    if word == "release" and more:
        from kai_jupyter.leases import release_named

        released = release_named(session, more[0])
        released.show()
        return released
    lease = session.resume()
    if lease is None:
        raise NotGranted(
            "This notebook has no lease. Ask for one with %gpu AMOUNT, such as %gpu 0.5"
        )
    if word == "release":
        lease.release()
    elif word == "extend":
        by_s = None if more in ([], [FOREVER]) else seconds(" ".join(more), "extend")
        lease.extend(by_s)
    else:
        lease.show_explanation()
        return None
    lease.show()
    return lease


def _status(session: Any) -> Any:
    lease = session.resume()
    if lease is None:
        from kai_jupyter.asking import Asking

        asking = Asking(session, CHOICES)
        asking.show()
        return asking
    lease.refresh()
    lease.show()
    return lease
