"""Errors of a text, token by token: the evidence of its matching, a learned head, and a rule without one."""
