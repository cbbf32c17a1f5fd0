"""Commands behind the Makefile: set up, start, check; not installed with the package."""
