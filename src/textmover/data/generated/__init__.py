"""Generated ratings: damaged sentences, ungrammatical sentences and synthetic records."""
