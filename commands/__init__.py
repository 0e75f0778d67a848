"""Intentions and the edge: the command line, every way in and every way out."""
