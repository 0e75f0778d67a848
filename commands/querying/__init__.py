"""Querying: SQL over documented views of the journal, in a derived database that may be deleted at any time."""
