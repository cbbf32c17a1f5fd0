"""The tokens of the hub's pages: a copy of the lab extension's, packed into the wheel. `--check` only compares."""

from __future__ import annotations

import sys

from tools.progress import ROOT

SOURCE = ROOT / "labextension" / "style" / "tokens.css"
TARGET = ROOT / "kai_jupyter" / "hub" / "static" / "tokens.css"
MARK = "/* Made from labextension/style/tokens.css by `make generate`. */\n"


def main() -> int:
    """Write the copy, or say whether it is current."""
    wanted = MARK + SOURCE.read_text()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.exists() and TARGET.read_text() == wanted else 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
