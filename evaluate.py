"""Judge a metric against human ratings: ``python evaluate.py --model twmd --data ratings.tsv``."""

import sys

if __name__ == "__main__":
    from textmover.cli.main import main

    sys.exit(main(["evaluate", *sys.argv[1:]]))
