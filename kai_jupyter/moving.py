"""`%gpu --move`: what a notebook loses and keeps when it moves to a GPU kernel, and the button that moves it.

Rule: nothing moves by running a cell. The page moves the notebook when the button is pressed, because only it can.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kai_jupyter.errors import UsageError
from kai_jupyter.handles import tell
from scheduler_service.wire.pod_group import PodGroupView

if TYPE_CHECKING:
    from kai_jupyter.session import Session

COMMAND = "kai:move-to-gpu"
PROVISIONER = "kai-provisioner"
MOST_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKernel:
    """A kernelspec of our provisioner."""

    name: str
    title: str
    amount: str


def gpu_kernel(wanted: str, specs: Mapping[str, Mapping[str, Any]]) -> GpuKernel:
    """Return the GPU kernel called `wanted` ("" = the usual one). Raises `UsageError` with those there are."""
    found = {
        name: GpuKernel(
            name=name, title=str(spec.get("display_name", name)), amount=_amount(config)
        )
        for name, spec in specs.items()
        if (config := _config(spec)) is not None
    }
    name = wanted or ("kai-gpu" if "kai-gpu" in found else min(found, default=""))
    if name in found:
        return found[name]
    if not found:
        raise UsageError(
            "There is no kernel with a GPU here. `jupyter kai doctor` says what is missing; %gpu works without one."
        )
    raise UsageError(f"{wanted} is no kernel with a GPU. There is: {', '.join(sorted(found))}.")


def _config(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    stanza = (spec.get("metadata") or {}).get("kernel_provisioner") or {}
    return (stanza.get("config") or {}) if stanza.get("provisioner_name") == PROVISIONER else None


def _amount(config: Mapping[str, Any]) -> str:
    memory = config.get("memory")
    return f"{memory} of GPU memory" if memory else f"{config.get('amount') or '0.5'} GPU"


def variables(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> list[str]:
    """Return the names of what a person has made in this notebook, imports left out."""
    return sorted(
        name
        for name, value in namespace.items()
        if not name.startswith("_") and name not in hidden and not isinstance(value, ModuleType)
    )


def sentences(names: list[str], kernel: GpuKernel, held: PodGroupView | None) -> tuple[str, ...]:
    """Return what is lost, what is kept, and what happens then."""
    listed = ", ".join(names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    what = "1 variable" if len(names) == 1 else f"{len(names)} variables"
    lost = f"Lost: {what} ({listed}{more})." if names else "No variable is lost."
    kept = "Kept: the cells, their outputs and all files"
    if held is None:
        return lost, f"{kept}.", f"It asks for {kernel.amount} and waits its turn if there is none."
    if held.state == "Waiting":
        return lost, f"{kept}, and the place in the queue for {held.request.text}."
    return lost, f"{kept}, and the {held.request.text} that it holds."


def show(session: Session, wanted: str) -> None:
    """Show what is lost and kept, with the button; a front end without our page gets the way to do it by hand."""
    shell: Any = session.shell
    if not session.has_kernel:
        raise UsageError("Only a notebook can move to another kernel; this is a terminal.")
    held = session.resume()
    if held is not None and held.view.kind == "kernel":
        raise UsageError("The kernel of this notebook has a GPU already. %gpu shows it.")
    kernel = gpu_kernel(wanted, _installed())
    names = variables(shell.user_ns, shell.user_ns_hidden)
    told = sentences(names, kernel, None if held is None else held.view)
    by_hand = f"To move: Kernel, Change Kernel, {kernel.title}."
    title = f"This notebook can move to {kernel.title}."
    plain = " ".join([title, *told, by_hand])
    if session.has_widgets:
        args = {"kernel_name": kernel.name, "kernel_id": session.origin.kernel_id, "told": True}
        data = {
            "text/plain": plain,
            "text/html": _card(title, told, f"Move to {kernel.title}", args),
        }
        shell.display_pub.publish(data)
    else:
        tell(plain)


def _installed() -> dict[str, dict[str, Any]]:
    from jupyter_client.kernelspec import KernelSpecManager

    specs = KernelSpecManager().get_all_specs()
    return {name: found["spec"] for name, found in specs.items()}


def _card(title: str, told: tuple[str, ...], label: str, args: Mapping[str, object]) -> str:
    quoted = html.escape(json.dumps(args))
    lines = "<br>".join(html.escape(line) for line in told)
    return (
        f'<section class="jp-Kai jp-Kai-Card" role="region" aria-label="{html.escape(title)}">'
        f'<header class="jp-Kai-Head"><div><b>{html.escape(title)}</b><br>{lines}</div>'
        '<span class="jp-Kai-Head-end"><button class="jp-Kai-Button" data-size="s" type="button" '
        f'data-commandlinker-command="{COMMAND}" data-commandlinker-args="{quoted}">'
        f"{html.escape(label)}</button></span></header></section>"
    )
