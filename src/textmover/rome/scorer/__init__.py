"""Networks that combine RoMe's features into a score."""
