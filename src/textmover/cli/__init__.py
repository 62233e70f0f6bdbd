"""The command line: configuration to objects to a run."""
