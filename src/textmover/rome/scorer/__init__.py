"""The network that makes one score of RoMe's features."""
