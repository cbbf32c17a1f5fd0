"""No property is judged by the clock: a busy machine may take its time for an example.

`tools.mutate` asks for the first failure only: the same examples for each mutant, none made smaller.
"""

import os

from hypothesis import HealthCheck, Phase, settings

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "first failure",
    parent=settings.get_profile("no clock"),
    phases=(Phase.explicit, Phase.generate),
    database=None,
    derandomize=True,
)
settings.load_profile(os.environ.get("KAI_PROPERTY_PROFILE", "no clock"))
