"""What a program asks of its runtime: people, signals, timers, jobs, batches of calls, and a log.

The tools of the plan are modules of their own, and stand in the program's globals by their names.
"""

from ._calls import first, last, on_edit, parallel
from ._errors import BadRequest, BudgetExceeded, Denied, Edited, Expired, Failed, JobFailed, Rejected, ToolError
from ._output import log
from ._waits import Decision, ask, delegate, gate, now, random_bytes, sha256, signal, sleep, until

__all__ = [
    "BadRequest", "BudgetExceeded", "Decision", "Denied", "Edited", "Expired", "Failed", "JobFailed", "Rejected",
    "ToolError", "ask", "delegate", "first", "gate", "last", "log", "now", "on_edit", "parallel", "random_bytes",
    "sha256", "signal", "sleep", "until",
]
