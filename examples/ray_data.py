"""Score a Ray data set: each of two actors loads the metric once and scores the batches that it is given.

    pip install "textmover[ray,embedded]"
    python examples/ray_data.py

On a cluster, leave ``ray.init`` to the cluster, read Parquet with ``ray.data.read_parquet`` and write it with
``Dataset.write_parquet``; ``num_gpus=1`` gives each actor a GPU.
"""

import random

import ray

from textmover.scoring.ray import RayScorer

WORDS = ["a", "the", "cat", "dog", "child", "sits", "sleeps", "in", "on", "under", "street", "garden", "table", "rain"]


def pairs(count: int, seed: int = 0) -> list[dict[str, object]]:
    """References, and hypotheses that have lost a share of their words."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        words = draw.choices(WORDS, k=draw.randint(4, 12))
        kept = [word for word in words if draw.random() > number % 3 / 4]
        rows.append({"id": number, "hypothesis": " ".join(kept or words), "reference": " ".join(words)})
    return rows


def main(count: int = 1001, **options: object) -> list[dict[str, object]]:
    """Score pairs; ``options`` are those of ``Scorer.from_pretrained``."""
    started = not ray.is_initialized()
    if started:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        ray.data.DataContext.get_current().execution_options.preserve_order = True
        dataset = ray.data.from_items(pairs(count)).map_batches(
            RayScorer,
            fn_constructor_kwargs={"model": "twmd", "device": "cpu", **options},
            concurrency=2,
            batch_size=256,
        )
        return dataset.take_all()
    finally:
        if started:
            ray.shutdown()


if __name__ == "__main__":
    for row in main()[:5]:
        print(f"{row['score']:.3f}  {row['hypothesis']}  |  {row['reference']}")
