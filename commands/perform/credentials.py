"""Credentials: looked up by name when a call needs them, and taken out of everything that is recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from commands.regular_file import read_small
from ledger.errors import Refusal
from ledger.families.providers import Connection, Providers
from ledger.redaction import Redactor

LARGEST_FILE = 64 * 1024


class CredentialMissing(Refusal, name="credential-missing", exit_code=51):
    """A call needs a credential that isn't there, or that can't be sent."""

    def __init__(self, connection: str, source: str, problem: str) -> None:
        super().__init__(
            f"the credential of connection {connection} {problem}; nothing was called",
            where=source,
            remedy=f"set {source} and run the same command again",
        )


def credential(connection: Connection, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the credential of a connection; None when it has none; CredentialMissing when it should have one."""
    environment = os.environ if environment is None else environment
    if connection.api_key_env is not None:
        source = f"the environment variable {connection.api_key_env}"
        value = environment.get(connection.api_key_env, "").strip()
    elif connection.api_key_file is not None:
        source = f"the file {connection.api_key_file}"
        try:
            data = read_small(Path(connection.api_key_file).expanduser(), LARGEST_FILE)
            value = "" if data is None else data.decode().strip()
        except (OSError, UnicodeDecodeError):
            raise CredentialMissing(connection.name, source, "can't be read") from None
        if data is None:
            raise CredentialMissing(connection.name, source, "must be in a regular file of at most 64 KiB")
    else:
        return None
    if not value:
        raise CredentialMissing(connection.name, source, "is missing")
    if not value.isascii() or not value.isprintable():
        raise CredentialMissing(connection.name, source, "has characters that no header may hold")
    return value


def redactor_for(providers: Providers, environment: Mapping[str, str] | None = None) -> Redactor:
    """Return what takes the values of all configured credentials out, as far as they can be looked up now."""
    values = []
    for connection in providers.connections.values():
        try:
            value = credential(connection, environment)
        except CredentialMissing:
            continue
        if value is not None:
            values.append(value)
    return Redactor(values)
