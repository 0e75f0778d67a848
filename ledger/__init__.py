"""The ledger: immutable, content-hashed facts and the rules for adding to them."""

__version__ = "0.1.0"
