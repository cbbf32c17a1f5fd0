"""A machine that several people share, for real: accounts of its own, a shared service, and what each person starts.

It needs root to make the accounts; everything is ended and removed by the number of the account that started it.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from scheduler_service.wire import locate
from tests.fakes.processes import FAIL_SAFE_S, KAI, ROOT, until

QUEUES = """
queues:
  team:
    gpu: 2
    show_names: false
    leads: ["group:{group}"]
  leads:
    gpu: 0
    subjects: ["group:{group}"]
"""


@dataclass
class Person:
    """A local account with a home of its own."""

    name: str
    home: Path
    machine: Workstation
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.name).pw_uid

    @property
    def state(self) -> Path:
        return self.home / "state"

    def command(self, *command: str) -> list[str]:
        """Return `command` as this person runs it."""
        number = str(self.uid)
        return ["setpriv", "--reuid", number, "--regid", number, "--init-groups", *command]

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        environment = {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "KAI_STATE_DIR": str(self.state),
            "KAI_SOCKET": str(self.machine.socket),
        }
        process = subprocess.Popen(
            self.command(*command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | self.variables | variables,
            cwd=self.home,
        )
        self.machine.started.append(process)
        return process

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, **variables)
        out, err = process.communicate(timeout=FAIL_SAFE_S)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def kai(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `kai` to its end, as this person."""
        return self.run(*KAI, *arguments)

    def group(self, name: str) -> dict:
        """Return one group of this person's."""
        status, text = self.ask("GET", f"/pod-groups/{self.name}/{name}")
        assert status == 200, text
        return json.loads(text)

    def live(self) -> list[str]:
        """Return the names of this person's live groups."""
        status, text = self.ask("GET", "/pod-groups?mine=1")
        assert status == 200, text
        return [group["name"] for group in json.loads(text)["items"] if not group["ended_at"]]

    def becomes(self, name: str, state: str) -> dict:
        """Wait until a group of this person is in that state."""
        until(lambda: self.group(name)["state"] == state, f"{name} is {state}")
        return self.group(name)

    def ask(
        self, method: str, path: str, *, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Send one request over the socket, as this person; return status and text (none of a stream)."""
        transport = httpx.HTTPTransport(uds=str(self.machine.socket))
        with httpx.Client(transport=transport, base_url=f"{locate.SOCKET_URL}/api/v1") as client:
            os.seteuid(self.uid)  # the kernel notes who connects
            try:
                with client.stream(method, path, json=body, headers=headers) as answer:
                    is_stream = "event-stream" in answer.headers.get("content-type", "")
                    return answer.status_code, "" if is_stream else answer.read().decode()
            finally:
                os.seteuid(0)

    def processes(self) -> list[int]:
        return _processes_of(self.uid)


class Workstation:
    """The machine: a service account, people, and their processes."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kai-ws-"))
        self.folder.chmod(0o755)
        self.mark = f"kt{os.getpid()}{os.urandom(2).hex()}"
        self.socket = self.folder / "run" / "kai.sock"
        self.started: list[subprocess.Popen[str]] = []
        self.people: list[Person] = []
        self.groups: list[str] = []
        self.account = self.person("s")
        self.socket.parent.mkdir()
        os.chown(self.socket.parent, self.account.uid, self.account.uid)
        self.service: subprocess.Popen[str] | None = None

    def person(self, letter: str, *, groups: tuple[str, ...] = ()) -> Person:
        """Make an account."""
        name = self.mark + letter
        home = self.folder / name
        home.mkdir(mode=0o700)
        more = ["--groups", ",".join(groups)] if groups else []
        _account("useradd", "--no-create-home", "--home-dir", str(home), *more, name)
        person = Person(name, home, self)
        os.chown(home, person.uid, person.uid)
        self.people.append(person)
        return person

    def unix_group(self, name: str) -> str:
        """Make a group; return its name on this machine."""
        full = self.mark + name
        _account("groupadd", full)
        self.groups.append(full)
        return full

    def serve(self, *options: str, **variables: str) -> subprocess.Popen[str]:
        """Start the shared service and wait until it answers."""
        state = ("--state-dir", str(self.account.home / "service"))
        command = (*KAI, "serve", "--shared", *state, "--socket", str(self.socket), *options)
        self.service = self.account.start(*command, **variables)
        until(lambda: self.answers() or self.service.poll() is not None, "the service answers")
        assert self.service.poll() is None, self.service.communicate()
        return self.service

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as trial:
            try:
                trial.connect(str(self.socket))
            except OSError:
                return False
        return self.account.ask("GET", "/ready")[0] == 200

    def stop_service(self, number: int = signal.SIGTERM) -> tuple[str, str]:
        """End the service; return what it printed."""
        assert self.service is not None
        self.service.send_signal(number)
        return self.service.communicate(timeout=FAIL_SAFE_S)

    def end(self) -> None:
        """End everything that runs under these accounts, and remove them."""
        for person in self.people:
            _end_all_of(person.uid)
        for process in self.started:
            process.communicate(timeout=FAIL_SAFE_S)
        for person in self.people:
            _account("userdel", person.name)
        for group in self.groups:
            _account("groupdel", group)
        shutil.rmtree(self.folder, ignore_errors=True)


def make() -> Workstation:
    """Return a workstation, or skip with the reason."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make two accounts")
    for tool in ("useradd", "userdel", "groupadd", "setpriv"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool} to act as two people")
    if subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", "test", "-r", str(Path(__file__))],
        check=False,
    ).returncode:
        pytest.skip(f"other accounts can not read {ROOT}, so they can not run this code")
    return Workstation()


def _account(*command: str) -> None:
    """Change the accounts of this machine; another change may hold their lock for a moment."""
    deadline = time.monotonic() + FAIL_SAFE_S
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.1)


def _processes_of(uid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            owner = entry.stat().st_uid
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if owner == uid and state not in "ZX":
            found.append(int(entry.name))
    return found


def _end_all_of(uid: int) -> None:
    deadline = time.monotonic() + FAIL_SAFE_S
    while pids := _processes_of(uid):
        assert time.monotonic() < deadline, f"still there: {pids}"
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
