"""Writes a small capture file (docs/formats/capture.md) of a program that never ran: python make_capture.py LAUNCHES OUTPUT [FILE]

Two steps of the launches of launches.json, a kernel of 1000 ns each and one more for library calls, under ids that name the
line of FILE (default: output_code.py beside LAUNCHES). With FILE `nodes`, an eager run: ids that name the exported nodes, or
the map's own if that is of an exported graph.
"""

import json
import struct
import sys
import zlib
from pathlib import Path

NONE = 0xFFFFFFFF


class Capture:
    """The bytes of a capture file, one record a chunk."""

    def __init__(self) -> None:
        self.bytes = struct.pack("<8s4IQ", b"OPPROFCP", 1, 32, 4711, 0, 0)
        self.strings = 0

    def chunk(self, kind: int, payload: bytes, record: int = 0) -> None:
        header = [0x4B4E4843, kind, len(payload), 1, record or 0]
        crc = zlib.crc32(struct.pack("<6I", *header, 0))
        crc = zlib.crc32(payload, crc)
        padding = -len(payload) % 8
        self.bytes += struct.pack("<6I", *header, crc) + payload + bytes(padding)

    def record(self, kind: int, layout: str, *values: int) -> None:
        payload = struct.pack("<" + layout, *values)
        self.chunk(kind, payload, len(payload))

    def string(self, text: str) -> int:
        encoded = text.encode()
        self.chunk(2, struct.pack("<2I", self.strings, len(encoded)) + encoded)
        self.strings += 1
        return self.strings - 1

    def meta(self, key: str, value: str) -> None:
        self.chunk(1, struct.pack("<2I", len(key), len(value)) + key.encode() + value.encode())

    def id_name(self, number: int, text: str) -> None:
        self.record(16, "QII", number, self.string(text), 0)

    def mark(self, time: int, value: int, kind: int) -> None:
        self.record(15, "QQIIII", time, value, kind, NONE, 1, 0)

    def kernel(self, name: str, start: int, end: int, correlation: int) -> None:
        sizes = (264, 1, 1, 256, 1, 1, 0, 0, 0, 0, 4096, 4096, 0)
        self.record(
            3, "4Q6I6i3I4I2H", start, end, 0, 0, self.string(name), 0, 1, 7, correlation, 0, *sizes, 32, 0
        )  # fmt: skip

    def api(self, start: int, end: int, correlation: int) -> None:
        self.record(7, "QQ6I", start, end, 1, 211, 5, correlation, 0, 4711)

    def external_id(self, number: int, correlation: int) -> None:
        self.record(9, "QII", number, correlation, 0)


def main() -> None:
    source, output, *rest = sys.argv[1:]
    launches = json.loads(Path(source).read_text())["launches"]
    file = rest[0] if rest else str(Path(source).with_name("output_code.py"))
    capture = Capture()
    capture.meta("pid", "4711")
    capture.meta("host", "example")
    device = capture.string("NVIDIA H200")
    capture.record(
        13, "8IQ4I2I", 0, 9, 0, 132, 0, 0, 0, 0, 1 << 37, 2048, 233472, 65536, 32, device, 0
    )
    capture.record(20, "4I", 1, 211, capture.string("cudaLaunchKernel"), 0)
    capture.record(14, "3Q", 1000, 1_700_000_000_000_000_000, 5)
    for number, launch in enumerate(launches, 1):
        if file != "nodes":
            identity = {"file": file, "line": launch["line"]}
        else:
            node = launch["nodes"][-1]
            identity = {"node": (node["from"] or [node])[-1]["name"]}
        capture.id_name(number, json.dumps(identity))
    time, correlation = 1_000_000, 0
    for step in range(2):
        capture.mark(time, step, 1)
        for number, launch in enumerate(launches, 1):
            for part in range(1 if launch["kind"] == "triton" else 2):
                correlation += 1
                time += 2000
                capture.api(time, time + 1500, correlation)
                name = launch["kernel"] if launch["kind"] == "triton" else f"library_{part}"
                capture.kernel(name, time + 2000, time + 3000, correlation)
                capture.external_id(number, correlation)
        time += 10_000
        capture.mark(time, step, 2)
    capture.record(21, "4Q", 0, 0, 0, time)
    Path(output).write_bytes(capture.bytes)


if __name__ == "__main__":
    main()
