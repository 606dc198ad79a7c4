"""Log lines: what `print` and `stasis.log` write. None of it is a call.

A line goes to the host when it is finished. What is not finished waits here, and so is frozen with the guest.
"""

import io

import _host

from . import _json

# Where a line is cut before it is finished, so that a program cannot grow a line without end. The host cuts at less and says so.
_LONGEST = 20_000


class Lines(io.RawIOBase):
    """A stream of bytes, sent line by line."""

    def __init__(self):
        self._line = bytearray()
        self._skips = False

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._add(line)
            self.end_line()
        self._add(rest)
        return len(data)

    def _add(self, part):
        if self._skips:
            return
        self._line += part[: _LONGEST + 1]
        if len(self._line) > _LONGEST:
            _host.log(self._line)
            self._line.clear()
            self._skips = True

    def end_line(self):
        if not self._skips:
            _host.log(self._line)
        self._line.clear()
        self._skips = False

    def end(self):
        """Sends a last line that has no newline."""
        if self._line:
            self.end_line()


def stream():
    """A text stream for sys.stdout, and the lines behind it."""
    lines = Lines()
    return io.TextIOWrapper(lines, "utf-8", "backslashreplace", "\n", write_through=True), lines


def log(*values, **fields):
    """Writes a log line: the values as text, then the fields as JSON."""
    text = " ".join(str(value) for value in values)
    if fields:
        text = f"{text} {_json.encode(fields, 'log')}".lstrip()
    for line in text.split("\n"):
        _host.log(line.encode("utf-8", "backslashreplace"))
