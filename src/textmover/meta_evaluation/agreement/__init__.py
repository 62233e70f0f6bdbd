"""Agreement of metrics with human judgements, and of annotators with each other."""
