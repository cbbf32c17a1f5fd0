"""`jupyter kai doctor` checks every link from the page to the devices; `jupyter kai status` shows your requests."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from kai_jupyter._version import __version__

Verdict = Literal["ok", "warn", "bad"]
_MARKS: dict[Verdict, str] = {"ok": "✓", "warn": "!", "bad": "✗"}


class Finding(NamedTuple):
    """One checked link. `advice` says what to do where it is not well."""

    verdict: Verdict
    link: str
    text: str
    advice: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `jupyter kai …`; return the exit code: 0 when all is well, 1 when something must be done."""
    parser = argparse.ArgumentParser(prog="jupyter kai", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("doctor", "check every link and say what to do"),
        ("status", "show your requests"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--json", action="store_true", help="for programs")
    commands.add_parser("dashboard", help="serve the page of a team's lead", add_help=False)
    options, more = parser.parse_known_args(argv)
    if options.command == "dashboard":
        return _dashboard(more)
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    try:
        code = _status(options) if options.command == "status" else _doctor(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return 0
    return code


def _forget_stdout() -> None:
    """Keep the interpreter from complaining at exit about a reader (`| head`) that went away."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    print(text)  # noqa: T201 - the answer of a command


def _doctor(options: argparse.Namespace) -> int:
    findings = list(check())
    if options.json:
        _say(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            _say(f"{_MARKS[finding.verdict]} {finding.link:<18} {finding.text}")
            if finding.advice:
                _say(f"  {'':<18} → {finding.advice}")
        bad = sum(finding.verdict == "bad" for finding in findings)
        _say(f"{bad} of {len(findings)} links need you." if bad else "All links are well.")
    return int(any(finding.verdict == "bad" for finding in findings))


def _status(options: argparse.Namespace) -> int:
    from kai_jupyter.client import KaiClient
    from kai_jupyter.errors import KaiJupyterError
    from scheduler_service.wire.codec import encode

    try:
        with KaiClient(start=False) as client:
            views = client.groups(mine=True).items
    except KaiJupyterError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the answer of a command
        return 1
    if options.json:
        _say(json.dumps([encode(view) for view in views], indent=2))
    elif not views:
        _say("No requests. In a notebook: %gpu 0.5")
    for view in () if options.json else views:
        _say(f"{view.name:<20} {view.word:<12} {view.sentence}")
    return 0


def check() -> Iterator[Finding]:
    """Yield a finding for every link, in the order in which a request travels."""
    links: tuple[Callable[[], Finding], ...] = (
        _python,
        _server_extension,
        _lab_extension,
        _card,
        _widgets,
        _kernelspec,
        _provisioner,
        _pending_kernels,
        _signing_key,
        _service,
    )
    for link in links:
        try:
            yield link()
        except Exception as error:  # noqa: BLE001 - a doctor reports what broke, also what nobody foresaw
            name = link.__name__.strip("_").replace("_", " ")
            yield Finding("bad", name, f"could not be checked: {type(error).__name__}: {error}")


def _python() -> Finding:
    return Finding("ok", "package", f"kai-jupyter {__version__}, Python {sys.version.split()[0]}")


def _server_extension() -> Finding:
    from jupyter_core.paths import jupyter_config_path
    from jupyter_server.config_manager import BaseJSONConfigManager

    enabled: dict[str, bool] = {}
    for folder in reversed(jupyter_config_path()):
        read = BaseJSONConfigManager(config_dir=str(folder)).get("jupyter_server_config")
        enabled |= read.get("ServerApp", {}).get("jpserver_extensions", {})
    if enabled.get("kai_jupyter"):
        importlib.import_module("kai_jupyter.extension")
        return Finding("ok", "server extension", "enabled and importable")
    return Finding(
        "bad",
        "server extension",
        "not enabled: pages cannot reach the queue",
        "jupyter server extension enable kai_jupyter, then start the server anew",
    )


def _lab_extension() -> Finding:
    from jupyter_core.paths import jupyter_path

    for folder in jupyter_path("labextensions"):
        package = Path(folder) / "@kai" / "jupyter" / "package.json"
        if package.is_file():
            version = json.loads(package.read_text("utf-8"))["version"]
            if version.split("-")[0] != __version__.split("+")[0]:
                return Finding(
                    "warn",
                    "lab extension",
                    f"version {version}, but the package is {__version__}",
                    "pip install --force-reinstall kai-jupyter, then reload the page",
                )
            return Finding("ok", "lab extension", f"{version} in {folder}")
    return Finding(
        "bad",
        "lab extension",
        "not installed: no panel, no banner, no status item",
        "pip install kai-jupyter (in a clone: make env), then reload the page",
    )


def _card() -> Finding:
    from kai_jupyter.widgets.card import is_built

    if is_built():
        return Finding("ok", "card", "built")
    return Finding("warn", "card", "not built: cells show text", "in a clone: make env")


def _widgets() -> Finding:
    importlib.import_module("anywidget")
    ipywidgets = importlib.import_module("ipywidgets")
    return Finding("ok", "widgets", f"ipywidgets {ipywidgets.__version__}")


def _kernelspec() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager

    found = KernelSpecManager().find_kernel_specs().get("kai-gpu")
    if found:
        return Finding("ok", "kernel with a GPU", f"kai-gpu in {found}")
    return Finding(
        "warn",
        "kernel with a GPU",
        "the kernelspec kai-gpu is not installed; %gpu works without it",
        "pip install --force-reinstall kai-jupyter",
    )


def _provisioner() -> Finding:
    from importlib.metadata import entry_points

    names = [e.name for e in entry_points(group="jupyter_client.kernel_provisioners")]
    if "kai-provisioner" in names:
        return Finding("ok", "provisioner", "kai-provisioner is known to jupyter_client")
    return Finding(
        "warn",
        "provisioner",
        "kai-provisioner is not known; %gpu works without it",
        "pip install --force-reinstall kai-jupyter",
    )


def _pending_kernels() -> Finding:
    from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

    if AsyncMappingKernelManager.class_traits().get("use_pending_kernels") is not None:
        return Finding("ok", "pending kernels", "switched on by the server extension")
    return Finding(
        "bad",
        "pending kernels",
        "this jupyter_client is too old: cells run while a kernel waits would be lost",
        "pip install --upgrade jupyter_client",
    )


def _dashboard(arguments: Sequence[str]) -> int:
    """Serve the page of a team's lead until Ctrl-C; say what is missing where Voila is."""
    if importlib.util.find_spec("voila") is None:
        text = "The dashboard needs Voila. Run: pip install 'kai-jupyter[dashboard]'"
        print(text, file=sys.stderr)  # noqa: T201 - the answer of a command
        return 1
    from kai_jupyter.dashboards.serve import main as serve

    return serve(arguments)


def _signing_key() -> Finding:
    from scheduler_service.wire import locate, signing

    path = locate.signing_key_path()
    try:
        signing.load_key(path)
    except FileNotFoundError:
        return Finding("ok", "signing key", "made at the first request")
    except (OSError, signing.KeyFileExposed) as error:
        return Finding("bad", "signing key", str(error), f"chmod 600 {path}")
    return Finding("ok", "signing key", f"{path}, for you only")


def _service() -> Finding:
    from kai_jupyter.client import KaiClient
    from kai_jupyter.errors import KaiJupyterError
    from scheduler_service.wire import locate

    state = locate.state_dir()
    try:
        with KaiClient(start=False) as client:
            health = client.health()
            user = client.me().user
    except KaiJupyterError as error:
        if locate.lock_path(state).exists():
            return Finding("bad", "service", str(error), f"read {state / 'serve.log'}")
        return Finding("ok", "service", "does not run; it starts with the first request")
    notes = " ".join(health.notes)
    text = f"{health.devices_text}, as {user}, version {health.version}"
    return Finding("warn" if notes else "ok", "service", text, notes)


if __name__ == "__main__":
    sys.exit(main())
