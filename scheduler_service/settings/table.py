"""All settings in one table. `kai serve --help` prints it, `load` reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from scheduler_service.errors import ConfigurationError
from scheduler_service.settings.numbers import Unfit, whole
from scheduler_service.wire.locate import MACHINE_SOCKET, state_dir

CONFIG_NAME = "kai.yaml"
MACHINE_STATE = Path("/var/lib/kai")
"""Where the shared service of a machine keeps its state."""
NOWHERE = Path()
YES, NO = True, False
OTHER_VARIABLES = {"shared": "KAI_SHARED_SERVICE"}
"""KAI_SHARED names the folder of shared test data."""
TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})


def _setting(default: Any, help_text: str, parse: Callable[[str], Any] = str) -> Any:
    return field(default=default, metadata={"help": help_text, "parse": parse})


def _flag(text: str) -> bool:
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise Unfit(f"'{text}' is neither yes nor no.", "Write yes or no.")


def _count(text: str) -> int:
    return whole(text, 0)


def _positive(text: str) -> int:
    return whole(text, 1, 1000)


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise Unfit(f"'{text}' is not known here.", f"Write {' or '.join(words)}.")
        return text

    return parse


def _port(text: str) -> int:
    return whole(text, 0, 2**16 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything an operator may choose. Names end in their unit; a flag is ``--`` and the name with dashes."""

    state_dir: Path = _setting(  # noqa: RUF009 - makes a field
        NOWHERE, "Where state, token and logs are kept.", Path
    )
    host: str = _setting("127.0.0.1", "Address to listen on; loopback unless you know why.")
    port: int = _setting(0, "Port to listen on; 0 = a free one.", _port)
    embedded: bool = _setting(
        NO, "Run for one person: token file, own runner, ends when idle.", _flag
    )
    shared: bool = _setting(
        NO, "Run for everybody on this machine, on its socket; each person has a runner.", _flag
    )
    socket: Path = _setting(  # noqa: RUF009 - makes a field
        MACHINE_SOCKET, "Shared: the socket to listen at.", Path
    )
    admin_group: str = _setting(
        "kai-admin", "Shared: the Unix group that sees and ends everything; root does too."
    )
    simulate_gpus: str | None = _setting(
        None,
        "Simulated GPUs, e.g. 2x24GiB. Without it: the real ones, or 2x24GiB where there are none.",
    )
    queues: Path | None = _setting(  # noqa: RUF009 - makes a field
        None, "The queue file; else queues.yaml in the state directory.", Path
    )
    demo: str = _setting(
        "", "busy = other people, made up, on simulated GPUs; yours are real.", _one_of("", "busy")
    )
    time_scale: int = _setting(20, "Demo: how much faster than people the others are.", _positive)
    start_runner: bool = _setting(YES, "Start a runner for the service's own user.", _flag)
    payload_limit_mib: int = _setting(64, "Largest payload of a gang or cell, in MiB.", _count)
    result_limit_mib: int = _setting(256, "Largest result of one worker, in MiB.", _count)
    files_url: str = _setting(
        "", "Where payloads and results rest (fsspec URL); default: the state directory."
    )
    retention_days: int = _setting(
        14, "How long ended requests, their logs and results are kept.", _count
    )
    retention_groups: int = _setting(2000, "How many ended requests are kept at most.", _count)
    log_lines_per_group: int = _setting(200_000, "Log lines kept of one request.", _count)
    log_limit_mib: int = _setting(1024, "Disk for all log lines together, in MiB.", _count)
    idle_exit_s: int = _setting(
        600, "Embedded: end after so long without client or live request.", _count
    )
    runner_lost_s: int = _setting(
        660, "A silent runner's ended processes are booked after so long.", _count
    )
    unclaimed_s: int = _setting(
        300, "Shared: a grant that no runner of its owner takes is withdrawn after so long.", _count
    )
    move_wait_s: int = _setting(60, "How long a lease waits for its restarted kernel.", _count)
    place_wait_s: int = _setting(
        600, "How long a waiting kernel keeps its place while its Jupyter server is away.", _count
    )
    ending_notice_s: int = _setting(300, "A lease's end is told so long before.", _count)
    live_groups_per_user: int = _setting(
        500, "Live requests one person may have at a time.", _count
    )
    workers_limit: int = _setting(1024, "Workers one gang may have.", _count)
    hub_url: str = _setting(
        "",
        "API of a JupyterHub whose people are known by their hub tokens,"
        " e.g. http://127.0.0.1:8081/hub/api; empty = none.",
    )
    backend: str = _setting(
        "local",
        "Where work runs: local (this machine) or kubernetes.",
        _one_of("local", "kubernetes"),
    )
    kubeconfig: Path | None = _setting(  # noqa: RUF009 - makes a field
        None, "Kubernetes: how the cluster is reached; in a pod: by its service account.", Path
    )
    namespace: str = _setting("kai-scheduler", "Kubernetes: where our own objects are.")
    scheduler_name: str = _setting("kai-scheduler", "Kubernetes: whose pods are scheduled.")
    node_pool: str = _setting("", "Kubernetes: the node pool; empty = what has no pool label.")
    shard: str = _setting("default", "Kubernetes: the SchedulingShard whose fields hold.")
    decide: bool = _setting(
        YES, "Kubernetes: off = only look on, another scheduler decides.", _flag
    )
    dry_run: bool = _setting(
        NO, "Kubernetes: decide, change nothing, report where the cluster went another way.", _flag
    )
    bind_requests: str = _setting(
        "needed",
        "Kubernetes: BindRequests for shares, claims and volumes (needed), or always.",
        _one_of("needed", "always"),
    )
    bind_worker: bool = _setting(YES, "Kubernetes: bind by a process of its own.", _flag)
    scaling_image: str = _setting(
        "",
        "Kubernetes: image of pods that stand for waiting shares, for autoscalers; empty = none.",
    )
    leader_elect: bool = _setting(YES, "Kubernetes: wait for the Lease before deciding.", _flag)


@dataclass(frozen=True, slots=True)
class SettingLine:
    """One setting as help shows it."""

    name: str
    flag: str
    variable: str
    default: str
    help: str


def lines() -> Iterator[SettingLine]:
    """Yield every setting for `--help`."""
    for item in fields(Settings):
        default = "" if item.default in {None, NOWHERE} else str(item.default)
        name = item.name
        flag = f"--{name.replace('_', '-')}"
        yield SettingLine(name, flag, variable_of(name), default, item.metadata["help"])


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return OTHER_VARIABLES.get(name, f"KAI_{name.upper()}")


def load(
    flags: Mapping[str, Any], *, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Return the settings in force; a fault is refused with its place. `flags`: by name, None = not given."""
    environment = os.environ if environ is None else environ
    state = _state_dir(flags, environment)
    chosen = _from_file(file or _config_path(state, environment))
    for item in fields(Settings):
        if (text := environment.get(variable_of(item.name))) is not None:
            chosen[item.name] = _parsed(item.name, text, place=variable_of(item.name))
    for name, value in flags.items():
        if value is not None:
            place = f"--{name.replace('_', '-')}"
            chosen[name] = _parsed(name, value, place=place)
    chosen.setdefault("state_dir", state)
    return Settings(**chosen)


def _state_dir(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Path:
    """Return the state directory as flags and variables name it; the file of settings lies in it."""
    if given := flags.get("state_dir") or environ.get("KAI_STATE_DIR"):
        return Path(given)
    is_shared = str(flags.get("shared") or environ.get(variable_of("shared"), ""))
    return MACHINE_STATE if is_shared.lower() in TRUE else state_dir()


def _config_path(state: Path, environ: Mapping[str, str]) -> Path:
    override = environ.get("KAI_CONFIG")
    return Path(override) if override else state / CONFIG_NAME


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigurationError(
            f"{path} is not valid YAML.", why=str(error), hint="Correct that line."
        ) from error
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{path} must be lines like `port: 8890`.", hint="See kai serve --help."
        )
    return {
        str(name): _parsed(str(name), value, place=f"{path}, {name}")
        for name, value in content.items()
    }


def _parsed(name: str, value: Any, *, place: str) -> Any:
    item = next((item for item in fields(Settings) if item.name == name), None)
    if item is None:
        raise ConfigurationError(
            f"{place}: there is no setting {name}.", hint="kai serve --help lists them."
        )
    try:
        return item.metadata["parse"](str(value))
    except Unfit as error:
        raise ConfigurationError(
            f"{place}: {error.what}", hint=f"{error.hint} It sets: {item.metadata['help']}"
        ) from error
