"""The service: what the API asks (`ports.SchedulerPort`), over the store, the planner's loop and the runners' desk.

service = await Service.open(settings)
await service.start()      # adopts what it finds in the state directory
...                        # every method of SchedulerPort
await service.stop()       # what runs goes on

A cluster's door is `cluster_door.opened`: the same port over the objects that the cluster holds.
"""

from __future__ import annotations

from scheduler_service.service.core import Parts
from scheduler_service.service.door import Service

__all__ = ["Parts", "Service"]
