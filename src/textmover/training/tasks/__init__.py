"""Training tasks: ratings, classes and paraphrases."""
