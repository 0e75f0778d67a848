"""Ingesting: files to rows, rows to traces, in bounded memory."""
