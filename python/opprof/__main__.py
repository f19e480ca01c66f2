"""`python -m opprof` is the `opprof` command."""

import sys

from opprof.cli import main

sys.exit(main())
