"""Readings: pure, deterministic folds of ledger facts to values."""
