"""A planner that is obvious and slow, written from the rules alone, to judge the fast one.

Nothing here looks at `ledger` or `planning`: it recounts everything from the pods at every step,
in exact fractions, and forgets nothing by being clever.
"""
