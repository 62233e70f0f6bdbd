"""Agreement of predicted error spans with human annotations."""
