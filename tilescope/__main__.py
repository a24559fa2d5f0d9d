"""``python -m tilescope`` is the ``tilescope`` command."""

import sys

from tilescope.main import main

if __name__ == "__main__":
    sys.exit(main())
