"""`python -m gapmix`."""

from __future__ import annotations

import sys

from gapmix.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
