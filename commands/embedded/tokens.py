"""Token counts, estimated without a vocabulary: four ASCII bytes count as one token, any other character as one."""

from __future__ import annotations

MESSAGE_OVERHEAD = 4
REPLY_OVERHEAD = 3
_ASCII_PER_TOKEN = 4


def count(text: str) -> int:
    """Return the tokens that a text is counted as; never more than its bytes, never zero unless it is empty."""
    if text.isascii():
        return -(-len(text) // _ASCII_PER_TOKEN)
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // _ASCII_PER_TOKEN) + len(text) - plain


def cut(text: str, limit: int) -> str:
    """Return the longest beginning of a text, in whole characters, that counts as at most ``limit`` tokens."""
    if count(text) <= limit:
        return text
    low, high = 0, min(len(text), _ASCII_PER_TOKEN * limit)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]
