"""Runs that can be killed and resumed: shards, manifests, progress, and several processes."""
