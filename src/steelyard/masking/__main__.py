"""`python -m steelyard.masking`: one copy in a process of its own.

Reads a `job.Job` as JSON from standard input to its end, writes lines of JSON to standard output: `{"progress": ...}`
as it goes, and at the end one verdict. The exit code says the same: 0 copied, 1 failed, 2 refused, 3 leaked.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from typing import Any

from pydantic import ValidationError

from steelyard.masking.job import EXIT_CODES, Job, Verdict


def main() -> int:
    try:
        job = Job.model_validate_json(sys.stdin.buffer.read())
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
        return _end(Verdict("failed", f"the job cannot be read: {fields or 'no JSON'}"))
    watchdog = threading.Timer(job.deadline_seconds, _give_up, (job.deadline_seconds,))
    watchdog.daemon = True
    watchdog.start()
    from steelyard.masking import copying

    try:
        verdict = copying.run(job, lambda progress: _say({"progress": progress}))
    except Exception as error:
        # Where in the code it was is for us; what it was about may quote a value.
        traceback.print_tb(error.__traceback__)
        verdict = Verdict("failed", f"something unexpected went wrong ({type(error).__name__})")
    watchdog.cancel()
    return _end(verdict)


def _give_up(seconds: int) -> None:
    """Wherever the copy waits. What it has started ends with it (`programs.py`), sessions when the servers notice."""
    os._exit(_end(Verdict("failed", f"the copy was not finished within {seconds} s, its deadline")))


def _end(verdict: Verdict) -> int:
    _say(verdict.to_json())
    return EXIT_CODES[verdict.outcome]


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
