"""`%%gang` runs a cell on N workers; `%gang` lists, shows, stops gangs and brings their values."""

from __future__ import annotations

import argparse
from typing import Any

from IPython.core.magic import Magics

from kai_jupyter.durations import seconds
from kai_jupyter.errors import UsageError
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

_WORDS = ("ls", "show", "logs", "stop", "result", "why")
_LOG_TAIL = 200


@has_magics
class GangMagics(Magics):
    """Gangs of this person."""

    @documented
    @option(
        "words",
        nargs="*",
        metavar="COMMAND",
        help="ls | show | logs | stop | result | why, then a NAME",
    )
    @option(
        "-n",
        "--workers",
        type=whole_number("-n", 4),
        help="how many workers; they start together",
    )
    @option(
        "--gpu", help="GPU of each worker: a share such as 0.25 or whole GPUs; default: CPU only"
    )
    @option("--memory", help="GPU memory of each worker instead, such as 8GiB")
    @option("--cpu", help="cores of each worker, such as 2; default: not limited")
    @option(
        "--in", dest="send", metavar="a,b", help="variables to send; default: those the cell reads"
    )
    @option("--out", metavar="loss", default="", help="variables to bring back from rank 0")
    @option("--name", help="a name, to find the gang again")
    @option("--queue", help="the queue to ask in; default: yours")
    @option(
        "--for",
        dest="lasts",
        metavar="2h",
        help="how long it will run about; helps everybody's forecast",
    )
    @option("--wait", action="store_true", help="wait here for the end, with the output of rank 0")
    @option("--rank", type=whole_number("--rank", 0), help="of which worker (logs, result)")
    @option(
        "--priority", type=whole_number("--priority", 50), help="higher first, inside the queue"
    )
    @option("--preemptible", action=argparse.BooleanOptionalAction, help="may be taken back")
    @option(
        "--as",
        dest="workload",
        metavar="pytorchjob",
        help="in a cluster: what to make of it; job (the default), pytorchjob, rayjob or trainjob",
    )
    @cluster_options
    @line_or_cell
    def gang(self, line: str, cell: str | None = None) -> Any:
        """Run the cell on N workers that start together; without a cell, look after gangs.

        The variables that the cell reads go along, those of --out come back.
        """
        return run_gang(self.shell, parsed(self.gang, line), cell)


def run_gang(shell: Any, options: argparse.Namespace, cell: str | None) -> Any:
    """Do what the line says; return a handle, a list or a value."""
    from kai_jupyter.session import current

    session = current(shell)
    if cell is not None:
        return _start(session, options, cell)
    word = options.words[0] if options.words else "ls"
    if word not in _WORDS:
        raise UsageError(
            f"%gang {word} is not known. Write %%gang -n 4 on top of a cell, "
            f"or one of: %gang {', %gang '.join(_WORDS)}."
        )
    if has_options(GangMagics.gang, options, but=("rank",)):
        raise UsageError(
            f"%gang {word} takes no options but --rank. Name a gang without one: %gang show NAME. "
            "To start one, write %%gang -n 4 on top of a cell."
        )
    if word != "ls":
        return _obey(session, word, options)
    if len(options.words) > 1:
        raise UsageError("%gang ls takes no name. %gang show NAME shows one.")
    return _list(session)


def _start(session: Any, options: argparse.Namespace, cell: str) -> Any:
    from kai_jupyter.capture import capture_cell
    from kai_jupyter.gangs import submit_gang
    from kai_jupyter.surroundings import chosen

    if options.words:
        raise UsageError(
            f"%%gang does not know '{options.words[0]}'. For example: %%gang -n 4 --gpu 0.25 --out loss"
        )
    captured = capture_cell(
        cell,
        session.shell.user_ns,
        send=None if options.send is None else names(options.send),
        out=names(options.out),
        filename=f"Cell [{session.shell.execution_count}]",
    )
    handle = submit_gang(
        session,
        captured,
        workers=1 if options.workers is None else options.workers,
        options={
            "gpu": options.gpu,
            "gpu_memory": options.memory,
            "cpu": options.cpu,
            "name": options.name,
            "queue": options.queue,
            "priority": options.priority,
            "preemptible": options.preemptible,
            "declared_run_s": None if options.lasts is None else seconds(options.lasts, "--for"),
            "cluster": chosen(vars(options))[0],
        },
    )
    handle.settle()
    handle.show()
    remember(session, handle)
    if options.wait:
        handle.wait()
        handle.deliver(session.shell.user_ns)
    elif session.has_kernel:
        handle.stream_in_background()
    return handle


def _list(session: Any) -> None:
    from kai_jupyter.handles import tell
    from kai_jupyter.text import list_text

    views = [
        v
        for v in session.client.groups(mine=True).items
        if v.kind not in ("lease", "kernel", "server")
    ]
    tell(list_text(views))


def _obey(session: Any, word: str, options: argparse.Namespace) -> Any:
    from kai_jupyter.gangs import find_gang

    handle = find_gang(session, _one_name(session, word, options.words[1:]))
    if word == "logs":
        return _logs(session, handle, options.rank)
    if word == "result":
        return handle.result(rank=options.rank or 0)
    if word == "why":
        return handle.show_explanation()
    if word == "stop":
        handle.stop()
    handle.show()
    return handle


def _one_name(session: Any, word: str, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    latest = session.last_gang
    if not names and latest is not None:
        return str(latest)
    raise UsageError(f"Name one gang: %gang {word} NAME. %gang ls lists yours.")


def _logs(session: Any, handle: Any, rank: int | None) -> None:
    from kai_jupyter.handles import tell

    view = handle.view
    page = session.client.logs(view.namespace, view.name, rank=rank, tail=_LOG_TAIL)
    several = rank is None and view.workers > 1
    tell("\n".join(f"{line.rank}  {line.text}" if several else line.text for line in page.lines))


def remember(session: Any, handle: Any) -> None:
    """Keep the gang for `%gang logs` without a name and for bringing its values before the next cell."""
    session.last_gang = handle.key
    if not handle.is_delivered:
        session.undelivered.append(handle)


def deliver_results(session: Any) -> None:
    """Set the `--out` values of gangs that have finished, between cells, never while one runs."""
    for handle in tuple(session.undelivered):
        if handle.is_over:
            session.undelivered.remove(handle)
            handle.deliver(session.shell.user_ns)
