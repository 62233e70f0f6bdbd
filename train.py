"""Train a metric: ``python train.py fit --config configs/quickstart.yaml``."""

import sys

if __name__ == "__main__":
    from textmover.cli.main import main

    sys.exit(main(["train", *sys.argv[1:]]))
