"""What the arena and the host of the sandbox send each other, but for the requests to a match: see controller.py."""

import struct

READY = b"ready"
STATE_BYTES = 256  # the host's first packet: READY, or why it cannot sandbox
SETTINGS_SIZE, COMMAND, CODE = struct.Struct(">I"), struct.Struct(">cI"), struct.Struct(">i")
START, STOP = b"+", b"-"
