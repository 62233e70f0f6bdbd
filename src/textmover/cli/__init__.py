"""Command line: parse options, build objects and run commands."""
