"""Token-level error detection: evidence from a matching, a learned head, and a rule without a head."""
