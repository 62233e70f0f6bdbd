"""Files to segments: text files, tables, streams, judgement sets and outputs of systems."""
