"""The metrics as other libraries want them: evaluate's `compute`, data frames, the Trainer's `compute_metrics`."""
