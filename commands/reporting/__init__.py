"""Reporting: everything that is to be seen of a finished optimization, read from the journal alone."""
