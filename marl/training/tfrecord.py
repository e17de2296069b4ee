"""A record of an event file: the length of its data and the data, each with a checksum.

TensorBoard's own writer computes checksums byte by byte in Python, 0.2 s for an animation.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

POLYNOMIAL = 0x82F63B78  # CRC-32C's, with the lowest bit first
LANE = 1024  # bytes: long data is cut into lanes, whose checksums are computed side by side
MANY = 64  # lanes, from which on this is faster
MASK = 0xA282EAD8  # of TFRecord's masked CRC: the data may contain checksums itself, so stored ones are masked


def record(data: bytes) -> bytes:
    """The record of some data."""
    length = len(data).to_bytes(8, "little")
    return b"".join((length, _masked(crc32c(length)), data, _masked(crc32c(data))))


def read_records(file: bytes) -> Iterator[bytes]:
    """The data of all records of a file, up to one that is damaged or cut off."""
    at = 0
    while at < len(file):
        size = int.from_bytes(file[at : at + 8], "little")
        data = file[at + 12 : at + 12 + size]
        if file[at : at + 16 + size] != record(data):
            return
        yield data
        at += 16 + size


def crc32c(data: bytes) -> int:
    """The CRC-32C checksum."""
    register, lanes = 0xFFFFFFFF, len(data) // LANE
    if lanes >= MANY:
        columns = np.frombuffer(data, np.uint8, lanes * LANE).reshape(lanes, LANE).T
        first, second, third, fourth = _shift_tables()
        for appended in _append(np.zeros(lanes, np.uint32), columns).tolist():
            shifted = first[register & 255] ^ second[register >> 8 & 255] ^ third[register >> 16 & 255]
            register = shifted ^ fourth[register >> 24] ^ appended
        data = data[lanes * LANE :]
    table = _byte_table().tolist()
    for byte in data:
        register = table[(register ^ byte) & 255] ^ register >> 8
    return register ^ 0xFFFFFFFF


def _masked(checksum: int) -> bytes:
    rotated = checksum >> 15 | checksum << 17
    return ((rotated + MASK) & 0xFFFFFFFF).to_bytes(4, "little")


def _append(registers: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Registers [N] after some more bytes [bytes, N] each."""
    table = _byte_table()
    for column in columns:
        registers = table[(registers ^ column) & 255] ^ registers >> np.uint32(8)
    return registers


@cache
def _byte_table() -> np.ndarray:
    """What each byte makes of an empty register."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> np.uint32(1) ^ np.uint32(POLYNOMIAL), table >> np.uint32(1))
    return table


@cache
def _shift_tables() -> list[list[int]]:
    """What a lane of zeros makes of a register, by its four bytes; the register's is the sum (xor) of theirs."""
    bytes_at = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    zeros = np.zeros((LANE, bytes_at.size), np.uint8)
    return _append(bytes_at.ravel(), zeros).reshape(4, 256).tolist()
