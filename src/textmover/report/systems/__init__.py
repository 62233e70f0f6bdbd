"""Reports of system comparisons and rankings."""
