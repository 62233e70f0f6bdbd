"""RoMe's features of a pair of texts: semantic, syntactic, grammatical and surface."""
