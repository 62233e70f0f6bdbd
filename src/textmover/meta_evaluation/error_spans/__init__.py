"""Agreement of marked errors with those that people marked."""
