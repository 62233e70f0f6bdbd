"""Train a metric: ``python train.py fit --config configs/quickstart.yaml``."""

import sys

if __name__ == "__main__":
    from textmover.cli.training.train import main

    sys.exit(main())
