"""`python -m opprof` is the `opprof` command."""

import sys

from opprof.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
