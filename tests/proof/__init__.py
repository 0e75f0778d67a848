"""Trials of the whole path: what must hold across all the rooms at once."""
