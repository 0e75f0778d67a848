"""Comparing: two runs, builds or calibrations, from what they were asked for to what became of it."""
