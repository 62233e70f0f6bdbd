"""Puts the head of a trained metric, which marks errors, into a released one whose scores stay as they are.

    python train.py fit --config configs/errors.yaml
    python benchmarks/release_head.py runs/errors/metric checkpoints/textmover-general

The head was trained with the encoder of the released metric as it is, so all other weights are left as they are stored,
and every score is the same bit for bit, which is checked.
"""

from __future__ import annotations

from pathlib import Path

import harness
from safetensors.torch import load_file, save_file

from textmover import Scorer
from textmover.checkpoints.files import WEIGHTS, check_checkpoint, write_config
from textmover.modules.probe_sentences import PROBES

HEAD = "error_head."


def put_head(trained: Path, released: Path) -> int:
    """Write the head's weights, in float16 as those of adapters, beside those of a released metric; their number."""
    entries = check_checkpoint(released)
    head = {name: one.half() for name, one in load_file(trained / WEIGHTS).items() if name.startswith(HEAD)}
    kept = {name: one for name, one in load_file(released / WEIGHTS).items() if not name.startswith(HEAD)}
    save_file({**kept, **head}, released / WEIGHTS, metadata={"format": "pt"})
    entries["metric"]["mark_errors"] = True
    write_config(released, entries, list(entries["files"]))
    return sum(one.numel() for one in head.values())


def main() -> None:
    """Put a head into a released metric, and check that its scores stay as they are."""
    parser = harness.parser(__doc__)
    parser.add_argument("trained", type=Path)
    parser.add_argument("released", type=Path)
    options = parser.parse_args()
    texts = [list(one) for one in zip(*PROBES, strict=True)]
    before = Scorer.from_pretrained(options.released, backend="torch").score(*texts).scores
    weights = put_head(options.trained, options.released)
    after = Scorer.from_pretrained(options.released, backend="torch").score(*texts).scores
    if before.tolist() != after.tolist():
        raise RuntimeError("Expected the scores to stay as they are, but they changed: the head is of another encoder.")
    size = (options.released / WEIGHTS).stat().st_size
    print(f"{weights:,} weights of the head; {size / 1e6:.2f} MB in all; the scores are the same bit for bit.")


if __name__ == "__main__":
    main()
