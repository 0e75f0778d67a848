"""Explaining: what an event says, what led to it, and what came of it."""
