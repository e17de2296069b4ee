"""Records of an event file, byte by byte as TensorBoard writes them."""

import io

import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from marl.training.event_record import crc32c, record_of


def test_the_checksum_of_the_standard_example() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@pytest.mark.parametrize("data", [b"", b"\0", b"an event", bytes(range(256)) * 9])
def test_a_record_is_that_of_tensorboards_own_writer(data) -> None:
    theirs = io.BytesIO()
    RecordWriter(theirs).write(data)
    assert record_of(data) == theirs.getvalue()
