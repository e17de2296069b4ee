"""Records of event files, against TensorBoard's own writer."""

import io
import random

import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from marl.training.tfrecord import LANE, MANY, crc32c, read_records, record

FROM = LANE * MANY  # bytes, from which on lanes are computed side by side


def test_the_checksum_is_the_known_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@pytest.mark.parametrize("size", [0, 1, 8, LANE, FROM - 1, FROM, FROM + 1, FROM + LANE, 3 * FROM + 77])
def test_a_record_is_that_of_tensorboard(size) -> None:
    data = random.Random(size).randbytes(size)
    expected = io.BytesIO()
    RecordWriter(expected).write(data)
    assert record(data) == expected.getvalue()


def test_records_are_read_up_to_one_that_is_damaged_or_cut_off() -> None:
    datas = [b"first", b"", b"a longer third"]
    first, second, third = map(record, datas)
    file = first + second + third
    assert list(read_records(file)) == datas
    assert list(read_records(b"")) == []
    for cut in range(1, len(third)):
        assert list(read_records(file[:-cut])) == datas[:2]
    for at in range(len(third)):
        damaged = bytearray(file)
        damaged[len(first + second) + at] ^= 1
        assert list(read_records(bytes(damaged))) == datas[:2]
    assert list(read_records(first + bytes(40))) == datas[:1]  # what a power cut may leave
