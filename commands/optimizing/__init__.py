"""Optimizing: rollouts of candidates in the simulated environment, judged, and what follows from them."""
