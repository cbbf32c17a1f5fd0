"""What the Jupyter server and the host in a kernel's pod say to each other: Jupyter's own signed messages, encrypted.

Rule: no keys beside those of the kernel. Who can run code in the kernel can start it anew; nobody else can do either.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import zmq
from jupyter_client.session import Session

FIRST_PORT = 8701
"""A pod has an address of its own, so the ports are always the same; the first of six."""
PORT_NAMES = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
PORTS = {name: FIRST_PORT + number for number, name in enumerate(PORT_NAMES)}
HOST_PORT = FIRST_PORT + len(PORT_NAMES)
STATUS, START, SIGNAL = "kai_status", "kai_start", "kai_signal"


@dataclass(frozen=True, slots=True)
class Status:
    """How the kernel in the pod is. `generation` counts its processes from 1; `exit_code` is None while it runs."""

    generation: int
    exit_code: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The secrets of one kernel: what signs its messages, and what encrypts all of its traffic."""

    key: bytes
    public: bytes
    secret: bytes

    @classmethod
    def mint(cls, key: bytes) -> Keys:
        """Return new keys around the one that Jupyter signs with."""
        public, secret = zmq.curve_keypair()
        return cls(key=key, public=public, secret=secret)


def connection_file(keys: Keys, *, ip: str, kernel_name: str) -> bytes:
    """Return the content of a kernel's connection file."""
    content = {
        "transport": "tcp",
        "ip": ip,
        **PORTS,
        "signature_scheme": "hmac-sha256",
        "key": keys.key.decode("ascii"),
        "kernel_name": kernel_name,
        "curve_publickey": keys.public.decode("ascii"),
        "curve_secretkey": keys.secret.decode("ascii"),
    }
    return json.dumps(content, indent=2, sort_keys=True).encode()


def keys_of(content: bytes) -> Keys:
    """Return the keys that a connection file holds. Raises `KeyError`, `ValueError` where it is none of ours."""
    told = json.loads(content)
    found = (told["key"], told["curve_publickey"], told["curve_secretkey"])
    key, public, secret = (text.encode("ascii") for text in found)
    return Keys(key=key, public=public, secret=secret)


def session(keys: Keys) -> Session:
    """Return what signs and checks the messages of one side; what was heard once is not heard again."""
    return Session(key=keys.key, signature_scheme="hmac-sha256")


def message(own: Session, kind: str, **content: object) -> list[bytes]:
    """Return a signed message as it travels."""
    return list(own.serialize(own.msg(kind, content=content)))


def status_message(own: Session, status: Status) -> list[bytes]:
    """Return a status as it travels."""
    return message(own, STATUS, **asdict(status))


def read(own: Session, parts: list[bytes]) -> tuple[str, dict[str, Any]] | None:
    """Return kind and content of a message; None for what is not signed, not whole or was heard before."""
    try:
        _, rest = own.feed_identities(parts)
        told = own.deserialize(rest)
    except (ValueError, TypeError, KeyError):
        return None
    content = told["content"]
    return (told["msg_type"], content) if isinstance(content, dict) else None
