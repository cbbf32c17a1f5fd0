"""The scheduler of kai-jupyter: a pure planner over a ledger, and everything that feeds it."""
