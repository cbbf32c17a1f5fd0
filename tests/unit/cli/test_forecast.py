"""`kai forecast` asks the service about the very request that `kai submit` would make."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler_service.cli import ask, output, submit
from scheduler_service.cli.commands import kai
from scheduler_service.ports import ForecastAsk
from scheduler_service.service.asking import PRIORITY_OF_KIND
from scheduler_service.wire.pod_group import Submit

OPTIONS = (
    "",
    "--gpu 0.5",
    "--gpu 0.5 --devices 2 --queue vision",
    "--gpu-memory 8GiB --cpu 2 --memory 4GiB",
    "--gpu 1 -n 4",
    "--gpu 1 --priority 70 --not-preemptible",
)


class Asked:
    """A service that only remembers what it was asked."""

    def __init__(self) -> None:
        self.forecasts: list[dict[str, Any]] = []
        self.submits: list[Submit] = []

    def forecast(self, **asked: Any) -> Any:
        self.forecasts.append(asked)
        return SimpleNamespace(text="now", verdict="now")

    def health(self) -> Any:
        return SimpleNamespace(backend="local")

    def submit(self, made: Submit, *, idempotency_key: str | None) -> Any:
        del idempotency_key
        self.submits.append(made)
        return SimpleNamespace(name="batch", state="Running", position=None, notes=())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()

    @contextmanager
    def service(**_: object) -> Any:
        yield made

    monkeypatch.setattr(ask, "service", service)
    monkeypatch.setattr(submit, "service", service)
    monkeypatch.setattr(submit, "_signature", lambda _work: "signed")
    monkeypatch.setattr(output, "whole_sentence", lambda _view: "Runs.")
    return made


def said(command: str) -> tuple[int, str]:
    answer = CliRunner().invoke(kai, command.split())
    return answer.exit_code, answer.stderr


@pytest.mark.parametrize("options", OPTIONS)
def test_forecast_and_submit_ask_alike(asked: Asked, options: str) -> None:
    assert said(f"forecast {options}") == (0, "")
    assert said(f"submit -d {options} -- true")[0] == 0
    about, made = ForecastAsk(**asked.forecasts[0]), asked.submits[0]
    for part in fields(ForecastAsk):
        assert getattr(about, part.name) == getattr(made, part.name), part.name


def test_with_lease_it_is_what_a_notebook_would_get(asked: Asked) -> None:
    said("forecast --gpu 0.5 --lease")
    kind = asked.forecasts[0]["kind"]
    assert kind == "lease"
    assert PRIORITY_OF_KIND[kind] > PRIORITY_OF_KIND["batch"]


def test_a_notebook_has_one_worker(asked: Asked) -> None:
    code, told = said("forecast --gpu 0.5 --lease -n 2")
    assert (code, asked.forecasts) == (2, [])
    assert "not 2" in told
