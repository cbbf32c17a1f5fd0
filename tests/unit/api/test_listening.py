"""Where the service can not listen, the sentence names what is in the way: the port, or the address."""

from __future__ import annotations

import socket

import pytest

from scheduler_service.api.server import listen
from scheduler_service.errors import ConfigurationError


@pytest.mark.parametrize("host", ["192.0.2.1", "::1", "a..b"])
def test_an_address_that_is_not_here_is_named(host: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        listen(0, host=host)
    told = str(error.value)
    assert f"'{host}'" in told
    assert "--host" in told
    assert "--port" not in told
    assert "Errno" not in told


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port}.*Another program.*--port 0"):
            listen(port)


def test_a_port_that_can_not_be_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"port 70000.*no such port.*--port 0"):
        listen(70000)
