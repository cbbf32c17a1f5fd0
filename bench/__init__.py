"""Benchmarks of the scheduling core: `python -m bench [--only GROUP] [--json FILE]`.

One iteration is honest: build the ledger from the description (nothing kept), plan with all rules,
collect the plan. The outcome is checked before a time counts. No test asserts a time.
"""
