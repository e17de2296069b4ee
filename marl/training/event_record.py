"""One record of an event file: the length of the data, the data, and a checksum of each (the format of TFRecord).

TensorBoard's own writer of records brings its stand-in for TensorFlow along, with file systems and flags: 55 ms of
every start for these few lines.
"""

import struct
from functools import cache

POLYNOMIAL = 0x82F63B78  # of CRC-32C (Castagnoli), lowest bit first
MASK = 0xA282EAD8  # added to a rotated checksum: a checksum of data that holds checksums is a poor one


def record_of(data: bytes) -> bytes:
    """The bytes that a file gets for this data."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    checksum = crc32c(data)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + MASK) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """The checksum CRC-32C."""
    table, state = _table(), 0xFFFFFFFF
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    return state ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """What a byte adds to the state."""
    rows = []
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = state >> 1 ^ (POLYNOMIAL if state & 1 else 0)
        rows.append(state)
    return tuple(rows)
