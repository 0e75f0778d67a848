"""The embedded provider: a deterministic, honest stand-in for the services that answer questions."""
