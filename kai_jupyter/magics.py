"""`%load_ext kai_jupyter`: the magics, their completion, and the lease of a kernel that was restarted.

Rule: nothing heavy is imported here. The first `%gpu` pays for the HTTP client, not the start of every kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kai_jupyter.completion import complete
from kai_jupyter.gang_magics import GangMagics, deliver_results
from kai_jupyter.gpu_magics import GpuMagics

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kai_jupyter.session import Session


def load(shell: InteractiveShell) -> None:
    """Register everything with `shell`."""
    set_hook: Any = shell.set_hook
    shell.register_magics(GpuMagics, GangMagics)
    for name in ("%gpu", "%%gpu", "%gang", "%%gang"):
        set_hook("complete_command", complete, str_key=name)
    shell.events.register("pre_run_cell", lambda _info: _before_cell())
    _resume(shell)


def _before_cell() -> None:
    session = _session_in_use()
    if session is not None:
        session.cells += 1
        deliver_results(session)


def _session_in_use() -> Session | None:
    """Return the session, only if something has made one: looking must not import the client."""
    import sys

    # Missing also while the thread that resumes is still importing the module.
    in_use = getattr(sys.modules.get("kai_jupyter.session"), "in_use", None)
    return None if in_use is None else in_use()


def _resume(shell: InteractiveShell) -> None:
    """Take the lease of this kernel over if it was restarted; a service that does not run has none."""
    if getattr(shell, "kernel", None) is None:
        return
    from scheduler_service.wire import locate

    if locate.read_lock(locate.state_dir()) is None:
        return
    import threading

    def look() -> None:
        from kai_jupyter.session import current

        current(shell).resume_quietly()

    threading.Thread(target=look, name="kai-resume", daemon=True).start()
