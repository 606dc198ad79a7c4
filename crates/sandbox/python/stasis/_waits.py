"""Waits and built-in tools: gates, signals, timers, jobs, time, randomness and digests.

A wait is a call like any other. Whether the guest is kept, frozen or remade while it lasts cannot be seen from here.
"""

import base64
import datetime
import functools
import math
import re

from ._calls import Pending, call

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]+)(ms|s|m|h|d)")


class Decision:
    """What people decided. True if they approved."""

    __slots__ = ("status", "by", "reason", "answer", "at")

    def __init__(self, facts):
        self.status = facts["status"]
        self.by = facts.get("by", [])
        self.reason = facts.get("reason")
        self.answer = facts.get("answer")
        at = facts.get("at")
        self.at = None if at is None else datetime.datetime.fromisoformat(at)

    @property
    def approved(self):
        return self.status == "approved"

    def __bool__(self):
        return self.approved

    def __repr__(self):
        by = f" by {', '.join(self.by)}" if self.by else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.status}{by}{reason}"


class Wait:
    """A function that waits. Called it waits at once; `.later` makes a pending wait for `parallel` and `first`."""

    def __init__(self, make, waits=True):
        functools.update_wrapper(self, make)
        self._make = make
        self._waits = waits

    def __call__(self, *args, **options):
        return call(self.later(*args, **options))

    def later(self, *args, **options):
        tool, arguments, rules = self._make(*args, **options)
        arguments = {name: value for name, value in arguments.items() if value is not None}
        return Pending(tool, arguments, waits=self._waits, **rules)

    def __repr__(self):
        return f"<stasis.{self.__name__}>"


@Wait
def gate(title, details=None, *, roles=None, quorum=None, lease=None, on_expiry=None, form=None):
    """Asks people to let the program go on. Returns their decision if they approve, else raises Rejected or Expired."""
    return "stasis.gate", _question(title, details, roles, quorum, lease, on_expiry, form), {"convert": Decision}


@Wait
def ask(title, details=None, *, roles=None, quorum=None, lease=None, on_expiry=None, form=None):
    """Asks people, and returns their decision whatever it is: look at it."""
    rules = {"convert": Decision, "settle": Decision}
    return "stasis.gate", _question(title, details, roles, quorum, lease, on_expiry, form), rules


@Wait
def signal(name, *, timeout=None, schema=None):
    """Waits for a signal of this name, and returns its payload. Raises Expired if `timeout` passes first."""
    return "stasis.signal", {"name": name, "timeout_ms": _ms(timeout, "timeout"), "schema": schema}, {}


@Wait
def sleep(seconds):
    """Waits for a while: a number of seconds, or text such as "24h"."""
    return "stasis.sleep", {"ms": _ms(seconds, "seconds")}, {"convert": _nothing}


@Wait
def until(time):
    """Waits until a time: a datetime with a zone, or RFC 3339 text."""
    return "stasis.sleep", {"until": _time(time)}, {"convert": _nothing}


@Wait
def delegate(agent, task, *, tools=None, max_calls=None, timeout=None, schema=None, retry=None):
    """Hands a job over to an agent, and returns its result. Raises JobFailed if it ends otherwise than succeeded.

    `schema` is what the result has to fit. With `retry="safe"` another agent gets it when nothing is heard of the first.
    """
    arguments = {
        "agent": agent, "task": task, "tools": tools, "max_calls": max_calls, "timeout_ms": _ms(timeout, "timeout"),
        "schema": schema, "retry": retry,
    }
    return "stasis.delegate", arguments, {}


def _built_in(make):
    return Wait(make, waits=False)


@_built_in
def now():
    """The time, as a datetime in UTC."""
    return "stasis.now", {}, {"convert": datetime.datetime.fromisoformat}


@_built_in
def random_bytes(n):
    """`n` random bytes, at most 65,536."""
    return "stasis.random_bytes", {"n": n}, {"convert": base64.b64decode}


@_built_in
def sha256(data):
    """The SHA-256 of bytes, or of text as UTF-8, in hex digits."""
    data = data.encode() if isinstance(data, str) else bytes(memoryview(data))
    return "stasis.sha256", {"base64": base64.b64encode(data).decode()}, {}


def _question(title, details, roles, quorum, lease, on_expiry, form):
    if not isinstance(title, str):
        raise TypeError(f"title is text, not {type(title).__name__}")
    if isinstance(roles, str):
        roles = [roles]
    return {
        "title": title, "details": details, "roles": roles, "quorum": quorum,
        "lease_ms": _ms(lease, "lease"), "on_expiry": on_expiry, "form": form,
    }


def _ms(duration, name):
    """Whole milliseconds, rounded up, of seconds as a number or of text with a unit."""
    if duration is None:
        return None
    if isinstance(duration, str):
        match = _DURATION.fullmatch(duration)
        if not match:
            raise ValueError(f'{name}: {duration!r} is no duration such as "30s" or "24h"')
        return int(match[1]) * _UNITS_MS[match[2]]
    if isinstance(duration, datetime.timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise TypeError(f"{name} is a number of seconds or text such as \"30s\", not {type(duration).__name__}")
    if not math.isfinite(duration) or duration < 0:
        raise ValueError(f"{name}: {duration!r} is no duration")
    return math.ceil(duration * 1_000)


def _time(time):
    """RFC 3339 text of a datetime with zone, or of text that is one."""
    if isinstance(time, str):
        try:
            time = datetime.datetime.fromisoformat(time)
        except ValueError:
            raise ValueError(f"time: {time!r} is no time such as 2026-11-30T09:30:00Z") from None
    if not isinstance(time, datetime.datetime):
        raise TypeError(f"time is a datetime with zone or RFC 3339 text, not {type(time).__name__}")
    if time.tzinfo is None:
        raise TypeError("time has no zone")
    return time.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")


def _nothing(_):
    return None


for _name in ("Decision",):
    globals()[_name].__module__ = "stasis"
