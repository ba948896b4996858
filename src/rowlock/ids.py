"""Ids, stamps and receipts: where randomness comes from, and what a receipt is made of."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from struct import Struct, error
from typing import NamedTuple

from rowlock.errors import InvalidArgument

MESSAGE_ID_BYTES = 16
_MAC_BYTES = 16
_RECEIPT = Struct(">QQQQ")


def stamp() -> int:
    """63 random bits, never 0: a cycle's stamp, which is also the claim number of what it hands out."""
    return int.from_bytes(os.urandom(8), "big") >> 1 or 1


def message_ids(count: int) -> list[bytes]:
    drawn = os.urandom(MESSAGE_ID_BYTES * count)
    return [drawn[at : at + MESSAGE_ID_BYTES] for at in range(0, len(drawn), MESSAGE_ID_BYTES)]


class Receipt(NamedTuple):
    """Proof that a message was handed out by one claim to one caller of one subscription."""

    sub: int
    part: int
    seq: int
    claim: int


def seal(receipt: Receipt, secret: bytes) -> str:
    """The receipt as text that nobody without the secret can make."""
    plain = _RECEIPT.pack(*receipt)
    return base64.urlsafe_b64encode(plain + _mac(plain, secret)).decode("ascii")


def unseal(text: str, secret: bytes) -> Receipt:
    """The receipt behind the text, if it was sealed with this secret."""
    try:
        sealed = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        plain, mac = sealed[:-_MAC_BYTES], sealed[-_MAC_BYTES:]
        receipt = Receipt(*_RECEIPT.unpack(plain))
    except (ValueError, binascii.Error, error, AttributeError):
        raise InvalidArgument(f"{text!r:.120} is not a receipt.") from None
    if not hmac.compare_digest(mac, _mac(plain, secret)):
        raise InvalidArgument(f"{text!r:.120} is not a receipt of this database.")
    return receipt


def _mac(plain: bytes, secret: bytes) -> bytes:
    return hashlib.blake2b(plain, key=secret, digest_size=_MAC_BYTES).digest()
