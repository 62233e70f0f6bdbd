"""Save, load, average, describe and share metrics as checkpoints."""
