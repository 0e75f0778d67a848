"""Keys: the file that holds the gateway's key. The journal knows the key's digest only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from commands.regular_file import open_regular
from ledger.digests import content_digest
from ledger.errors import Refusal

FOLDER, FILE = "gateway", "key"
PREFIX = "exp-"
LONGEST = 4096
PRIVATE = 0o600


class GatewayKeyUnusable(Refusal, name="gateway-key-unusable", exit_code=74):
    """No key can be read from the key file, or none be kept where it belongs."""

    def __init__(self, path: Path, reason: str, *, is_key: bool = True) -> None:
        repair = "delete the file to get a new key, or repair it: one line of printable characters, mode 0600"
        super().__init__(
            f"the gateway's key can't be used: {reason}",
            where=str(path),
            remedy=repair if is_key else f"move {path} away, or make it what it should be, and run the command again",
        )


class KeyFileUnwritable(Refusal, name="key-file-unwritable", exit_code=223):
    """A new key can't be written where it was asked to be."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the key can't be written: {reason}; none was issued",
            where=str(path),
            remedy="name a file that isn't there yet, in a folder that can be written to",
        )


def new_key() -> str:
    """Return a key that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(32)


def write_key(path: Path, key: str) -> None:
    """Write a key into a new file that only its owner can read."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        with os.fdopen(descriptor, "w") as file:
            file.write(key + "\n")
    except OSError as error:
        raise KeyFileUnwritable(path, error.strerror or str(error)) from error


def digest_of(key: str) -> str:
    """Return what stands for a key in the journal and in comparisons."""
    return content_digest(key.encode("utf-8", "surrogateescape"))


def identity_of(digest: str) -> str:
    """Return the short name of a key."""
    return f"key-{digest.removeprefix('b3:')[:16]}"


def key_file(root: Path) -> tuple[Path, str]:
    """Return the key file and its key, made on first use: readable by its owner only from its first moment."""
    folder = root / FOLDER
    path = folder / FILE
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        reason = "it belongs into a folder, and something else is in that folder's place"
        raise GatewayKeyUnusable(folder, reason, is_key=False) from error
    except OSError as error:
        reason = f"its folder can't be made ({error.strerror or error})"
        raise GatewayKeyUnusable(folder, reason, is_key=False) from error
    if path.is_dir():
        raise GatewayKeyUnusable(path, "a folder is in the place of its file", is_key=False)
    try:
        if not path.exists():
            _write(path, new_key())
        path.chmod(PRIVATE)
        with open_regular(path) as file:
            key = file.read(LONGEST).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise GatewayKeyUnusable(path, getattr(error, "strerror", None) or "it isn't ASCII text") from error
    if len(key) < len(PREFIX) + 16 or not key.isprintable() or " " in key:
        raise GatewayKeyUnusable(path, "it is too short or holds blanks")
    return path, key


def _write(path: Path, key: str) -> None:
    """Write beside and move into place, so that nobody reads half a key; the first of two processes wins."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "w") as file:
        file.write(key + "\n")
    try:
        os.link(beside, path)
    except FileExistsError:
        return
    finally:
        beside.unlink()
