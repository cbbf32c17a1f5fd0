"""Who is known by what."""

from __future__ import annotations

import asyncio
import getpass
import stat

import pytest

from scheduler_service.api.authenticators import (
    Credentials,
    TokenAuthenticator,
    owner_of_token_file,
    token_in,
)
from scheduler_service.errors import ConfigurationError
from scheduler_service.ports import Caller


def test_the_token_file_is_made_for_its_owner_only_and_kept(tmp_path):
    path = tmp_path / "token"
    token = token_in(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) >= 32
    assert token_in(path) == token


def test_a_token_file_that_others_can_read_is_refused(tmp_path):
    """When a copy, an umask or a helpful colleague opened it: everybody on the machine would be its owner."""
    path = tmp_path / "token"
    token_in(path)
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="can be read by others"):
        token_in(path)


def test_an_empty_token_file_is_made_anew(tmp_path):
    """When the machine lost power between creating the file and writing it."""
    path = tmp_path / "token"
    path.touch(mode=0o600)
    assert token_in(path)


def test_the_owner_of_the_token_file_is_admin(tmp_path):
    authenticator = owner_of_token_file(tmp_path / "token")
    caller = asyncio.run(authenticator.caller_of(Credentials(token=token_in(tmp_path / "token"))))
    assert caller is not None
    assert caller.user == getpass.getuser()
    assert caller.is_admin


@pytest.mark.parametrize("token", [None, "", "ana", "ana-token ", "ANA-TOKEN", "ana-token\xe9"])
def test_what_is_not_exactly_a_token_is_nobody(token):
    authenticator = TokenAuthenticator({"ana-token": Caller("ana")})
    assert asyncio.run(authenticator.caller_of(Credentials(token=token))) is None
