"""Reports of a training run: agreement before and after, and learning curves."""
