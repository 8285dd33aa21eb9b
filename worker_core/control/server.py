"""Serves the local control channel inside the core."""
