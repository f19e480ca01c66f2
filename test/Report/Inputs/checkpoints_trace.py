"""Writes a trace of a CPU: twelve steps of twenty products, and in every fourth 200 ms of a checkpoint, as the range NAME or in none.

usage: checkpoints_trace.py FILE [NAME]
"""

import json
import sys


def main(path: str, name: str | None = None) -> None:
    events: list[dict[str, object]] = []

    def add(category: str, name: str, start: int, duration: int) -> None:
        events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1}
            | {"ts": start, "dur": duration, "args": {"External id": len(events) + 1}}
        )

    now = 0
    for step in range(12):
        start = now
        for _ in range(20):
            add("cpu_op", "aten::mm", now, 1000)
            now += 1020
        if step % 4 == 3:
            if name:
                add("user_annotation", name, now, 200_000)
            now += 200_000
        add("user_annotation", f"ProfilerStep#{step}", start, now - start)
    with open(path, "w") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
