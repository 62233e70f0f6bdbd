"""Agreement of metrics with people, and of people with one another."""
