"""Checkpoints: metrics saved, loaded, averaged, described and shared."""
