"""Generated ratings: damaged sentences, ungrammatical ones and made-up records."""
