from __future__ import annotations

import json
from dataclasses import replace

from scheduler_service.agent.discovery import devices_text
from scheduler_service.agent.nvml import Devices, GpuProcess, GpuState, Trouble

STATE = GpuState(
    uuid="GPU-a",
    index=0,
    name="NVIDIA A10",
    memory_mib=24576,
    used_mib=10,
    utilisation_percent=5,
    is_mig=False,
    processes=(GpuProcess(42, 10),),
)


def test_the_text_names_each_device_and_who_uses_it() -> None:
    assert json.loads(devices_text(Devices("550.54", (STATE,)))) == {
        "driver": "550.54",
        "devices": [
            {
                "uuid": "GPU-a",
                "index": 0,
                "model": "NVIDIA A10",
                "memory_mib": 24576,
                "mig": False,
                "pids": [42],
            }
        ],
        "lost": [],
    }


def test_trouble_is_told_too() -> None:
    told = json.loads(devices_text(Trouble("no_driver", "No driver.")))
    assert told == {"trouble": "no_driver", "text": "No driver."}


def test_only_what_is_news_changes_the_text() -> None:
    """Memory and load move all day; a process that comes or goes is news."""
    idle = Devices("550.54", (replace(STATE, processes=()),))
    busy = Devices("550.54", (STATE,))
    busier = Devices("550.54", (replace(STATE, used_mib=999, utilisation_percent=90),))
    assert devices_text(busy) == devices_text(busier)
    assert devices_text(idle) != devices_text(busy)
