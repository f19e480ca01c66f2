"""Processes for parts of a command, which begin with PyTorch loaded. Needs no PyTorch itself.

They are forks of one server, which loads PyTorch once and beside the command's own process. It uses no GPU, so that each of its forks
can.
"""

import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

from opprof.progress import began, began_at
from opprof.tools import end_with

# With it comes most of what the parts need. Inductor's own modules ask for GPUs while they load, after which a fork has none.
_LOADED = ("opprof.search.ahead",)


def start_server() -> ForkServerContext:
    """Has the server begin to load; to be called before the command loads PyTorch itself."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    forkserver.ensure_running()
    return context


@dataclass(frozen=True)
class Beginning:
    """What a process takes over of the one that asks for it: the server may have begun before all of it was so."""

    start: float
    environment: dict[str, str]


def beginning() -> Beginning:
    return Beginning(began(), dict(os.environ))


def begin(of: Beginning) -> None:
    """The first call in a process, which ends with the server, as that ends with the command."""
    end_with(os.getppid())
    os.environ.update(of.environment)
    began_at(of.start)
