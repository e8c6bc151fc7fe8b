"""`python -m budgerigar` is the command `budgie`."""

import sys

from budgerigar.cli import main

if __name__ == "__main__":
    sys.exit(main())
