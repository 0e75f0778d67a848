"""Bundles: one file that carries a run, with all that it rests on and the proof that its journal holds it."""
