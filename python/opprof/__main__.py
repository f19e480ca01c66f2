"""`python -m opprof` is the `opprof` command."""

import sys

from opprof.cli import main

if __name__ == "__main__":
    sys.exit(main())
