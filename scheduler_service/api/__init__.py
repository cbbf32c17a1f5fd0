"""Who asks, over HTTP: routes, event stream, authentication, problem+json, OpenAPI.

Rule: no decision is made here. A route names its guard first (no body of a stranger is read), then its body, calls
one method of `ports.SchedulerPort` and writes the answer. `health` and `ready` alone are open, and tell no secret.
"""
