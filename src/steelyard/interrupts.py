"""What Ctrl-C does before a command has begun anything: it ends the process, at once and without a word.

Python raises KeyboardInterrupt wherever it happens to be, also in the middle of loading a module, and shows where that
was. Loading takes most of a second; nothing is half made by then that would have to be put right.
"""

import os
import signal

CODE = 130


def end_at_once() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """From here on there is something to put right: Ctrl-C is a KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: object) -> None:
    os._exit(CODE)
