"""The one place that says which version this is; the wheel and the lab extension follow it."""

__version__ = "0.1.0"
