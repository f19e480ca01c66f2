"""Processes for parts of a command, which begin with PyTorch loaded. Needs no PyTorch itself.

They are forks of one server, which loads PyTorch once and beside the command's own process. It uses no GPU, so that each of its forks
can.
"""

import multiprocessing
import os
import select
import signal
import threading
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

from opprof.progress import began, began_at
from opprof.tools import end_with

# What takes long to load. Inductor's modules ask for GPUs while they load, after which a fork has none.
_LOADED = ("torch._dynamo",)


def start_server() -> ForkServerContext:
    """Has the server begin to load; to be called before the command loads PyTorch itself."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    forkserver.ensure_running()
    return context


@dataclass(frozen=True)
class Beginning:
    """What a process takes over of the one that asks for it: the server may have begun before all of it was so."""

    process: int
    start: float
    environment: dict[str, str]


def beginning() -> Beginning:
    return Beginning(os.getpid(), began(), dict(os.environ))


def begin(of: Beginning) -> None:
    """The first call in a process. It ends with the one that asked for it, and with the server, which lasts as long as its forks."""
    end_with(os.getppid())
    try:
        ended = os.pidfd_open(of.process)
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=_end_after, args=(ended,), daemon=True).start()
    os.environ.update(of.environment)
    began_at(of.start)


def _end_after(process: int) -> None:
    """Waits for the process of a descriptor, which can be read once it has ended."""
    select.select([process], [], [])
    os.kill(os.getpid(), signal.SIGKILL)
