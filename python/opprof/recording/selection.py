"""Which launches of a step are counted, and which others their counters stand for. Needs no PyTorch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opprof.errors import OpprofError
from opprof.run_folder import RunFolder
from opprof.tools import run_driver


@dataclass(frozen=True)
class Filter:
    """The launches that are wanted, in the order in which ncu's options narrow them: names, times, then places."""

    #: A regular expression that is searched in the kernel's name.
    kernels: str | None = None
    #: The kernels, by name, with the longest total time.
    top: int | None = None
    #: How many of what is left are passed over, and how many are counted.
    launch_skip: int = 0
    launch_count: int | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.kernels or "")
        except re.error as error:
            raise OpprofError(
                f"kernels {self.kernels!r}: not a regular expression: {error}"
            ) from error

    @property
    def narrows(self) -> bool:
        """Whether anything is left out."""
        return self != Filter()

    def _asked(
        self, launches: Sequence[Mapping[str, Any]], demangle: Callable[[str], str]
    ) -> dict[str, Any]:
        """What the driver is asked. Kernels go by the names that their sources have."""
        if not self.narrows:
            return {}
        shown = {name: demangle(name) for name in {launch["kernel"] for launch in launches}}
        names = [shown[launch["kernel"]] for launch in launches]
        asked: dict[str, Any] = {
            "names": names,
            "top": self.top,
            "skip": self.launch_skip,
            "count": self.launch_count,
        }
        if self.kernels is not None:
            wanted = re.compile(self.kernels)
            asked["named"] = [i for i, name in enumerate(names) if wanted.search(name)]
        return asked


@dataclass(frozen=True)
class Selection:
    """The launches that are counted, and the others that each stands for."""

    #: As counters.json has it: what stood for what, by which rule, and how far the times of those launches are from its own.
    report: dict[str, Any]

    @property
    def stands_for(self) -> dict[int, list[int]]:
        """The launches that are counted, in order, each with those that it stands for."""
        return {row["launch"]: row["for"] for row in self.report["launches"]}


def select(
    folder: RunFolder,
    launches: Sequence[Mapping[str, Any]],
    *,
    every: bool = False,
    chosen: Sequence[int] | None = None,
    filter: Filter | None = None,
    demangle: Callable[[str], str] = str,
) -> Selection:
    """Asks opprof-driver which launches of a step are counted: one of each work, by what lies in the run folder.

    Or `every` one, or those that the program itself has `chosen`; `filter` narrows that.
    """
    asked = {"launches": launches, "all": every, "chosen": chosen}
    if filter is not None:
        asked.update(filter._asked(launches, demangle))
    return Selection(json.loads(run_driver("select", folder.path, input=asked)))


def graph_kernels(launches: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The kernels that the CUDA graphs of a step ran, in the order of their capture."""
    return [kernel for launch in launches if launch["cuda_graph"] for kernel in launch["kernels"]]


def sequence_difference(
    graph: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]
) -> str | None:
    """The first place where the kernels of a CUDA graph and of the program outside of it are not the same; none if they are."""

    def described(kernels: Sequence[Mapping[str, Any]], index: int) -> str:
        if index >= len(kernels):
            return f"at its end after {len(kernels)}"
        kernel = kernels[index]
        return f"{kernel['kernel']} grid {tuple(kernel['grid'])} block {tuple(kernel['block'])}"

    def key(kernels: Sequence[Mapping[str, Any]], index: int) -> tuple[Any, ...] | None:
        if index >= len(kernels):
            return None
        return tuple(str(kernels[index][name]) for name in ("kernel", "grid", "block"))

    for index in range(max(len(graph), len(plain))):
        if key(graph, index) != key(plain, index):
            return (
                f"kernel {index} of the graph is {described(graph, index)}, "
                f"outside of it is {described(plain, index)}"
            )
    return None
