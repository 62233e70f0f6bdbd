"""Reports of compared and ranked systems."""
