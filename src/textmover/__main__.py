"""``python -m textmover``: the same as the command ``textmover``."""

import sys

if __name__ == "__main__":
    from textmover.cli.main import main

    sys.exit(main())
