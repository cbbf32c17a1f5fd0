"""The routes, one file a subject; every path is listed in docs/api.md."""
