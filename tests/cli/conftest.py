"""Worlds for the command line: with the fake service, or empty."""

from __future__ import annotations

import pytest

from tests.fakes.processes import FAKE_SERVER, World


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "state")
    yield made
    made.end()


@pytest.fixture
def served(world):
    world.serve(*FAKE_SERVER)
    return world


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One service with one request, for tests that only look."""
    made = World(tmp_path_factory.mktemp("shared") / "state")
    made.serve(*FAKE_SERVER)
    made.kai("submit", "-d", "--name", "train", "--gpu", "0.5", "--", "true")
    yield made
    made.end()
