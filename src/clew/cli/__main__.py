"""`python -m clew.cli` is the same as `clew`."""

import sys

from clew.cli.main import main

sys.exit(main())
