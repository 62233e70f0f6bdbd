"""Training tasks: ratings, classes, paraphrases and marked errors."""
