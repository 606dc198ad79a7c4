"""How a guest starts: what the image holds, and how one program is run in it.

Imported once, when the image is made; everything it leaves in memory is what each guest begins with.
"""

import builtins
import gc
import io
import json
import linecache
import marshal
import sys
import traceback
import types

import _host

import _image

_image.prepare()

import stasis
from stasis import _json, _output, _tools

# How a program ends; the host's `Ending` has the same numbers.
_END_RESULT, _END_RAISED, _END_RESULT_INVALID, _END_SOURCE_FAULT, _END_CHECKED = range(5)

_LONGEST_MESSAGE = 4_096
_LONGEST_TRACEBACK = 65_536
_INTERNAL = "/lib/stasis/"

# Given back before the report of an uncaught MemoryError is made.
_reserve = bytearray(1 << 18)


def run(body):
    """Runs the program of a start frame, and tells the host how it ended.

    The frame holds the length of its JSON, the JSON, and the program's code as `check` gave it. Compiling here would leave
    the compiler's garbage in the memory of every guest, and so in its snapshots. Without code the source does not compile.
    """
    length = int.from_bytes(body[:4], "little")
    start = json.loads(body[4 : 4 + length])
    code = body[4 + length :]
    name = start["name"]
    source = start["source"].removeprefix("\ufeff")
    main = _main(name, start)
    _remember_source(name, source)
    try:
        exec(marshal.loads(code) if code else compile(source, name, "exec", dont_inherit=True), main)
    except SystemExit as exit:
        if exit.code in (None, 0):
            _finish(main)
        else:
            _report(exit, str(exit.code), name)
    except BaseException as error:
        _report(error, None, name)
    else:
        _finish(main)


def check(body):
    """Compiles a source, and tells the host whether it can be run, and with which code."""
    import warnings

    start = json.loads(body)
    warnings.simplefilter("ignore")
    try:
        code = compile(start["source"].removeprefix("\ufeff"), start["name"], "exec", dont_inherit=True)
    except SyntaxError as error:
        _end_source_fault(error.lineno or 1, error.offset or 1, error.msg or "invalid syntax")
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        _end_source_fault(1, 1, f"{type(error).__name__}: {error}")
    else:
        _host.end(_END_CHECKED, marshal.dumps(code))


def _end_source_fault(line, column, text):
    fault = {"line": line, "column": max(column, 1), "text": text}
    _host.end(_END_SOURCE_FAULT, json.dumps(fault).encode())


def _main(name, start):
    """Fills the real `__main__`, so that classes of the program can be pickled, and gives its names."""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    plan = _tools.modules(start["modules"])
    sys.modules.update(plan)
    sys.argv[:] = [name]
    module.__dict__.update(
        plan, __builtins__=builtins, __file__=name, stasis=stasis, inputs=start["inputs"], result=None
    )
    return module.__dict__


def _remember_source(name, source):
    """Lets tracebacks show the program's lines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def _finish(main):
    _leave()
    try:
        text = _json.encode(main.get("result"), "result")
    except TypeError as error:
        _host.end(_END_RESULT_INVALID, str(error).encode("utf-8", "backslashreplace"))
    else:
        _host.end(_END_RESULT, text.encode())


def _leave():
    """What Python does when it exits, as far as a guest has it."""
    import atexit

    atexit._run_exitfuncs()
    _image.end_output()


def _report(error, message, name):
    global _reserve
    _reserve = None
    raised = {
        "class": _class_name(type(error)),
        "message": _text(error) if message is None else message,
        "line": _line(error.__traceback__, name),
        "traceback": _traceback(error),
        "code": error.code if isinstance(error, stasis.ToolError) else None,
        "job_failed": isinstance(error, stasis.JobFailed),
    }
    # Only now: a destructor or an exit function may use the exception.
    _leave()
    raised["message"] = raised["message"][:_LONGEST_MESSAGE]
    _host.end(_END_RAISED, json.dumps(raised).encode())


def _class_name(cls):
    module = cls.__module__
    return cls.__qualname__ if module in ("builtins", "__main__") else f"{module}.{cls.__qualname__}"


def _text(error):
    try:
        return str(error)
    except BaseException as second:
        return f"<its text could not be made: {type(second).__name__}>"


def _line(trace, name):
    """The last line of the program that was on the stack."""
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _traceback(error):
    """The traceback as Python prints it, without the frames of this package."""
    try:
        trace = error.__traceback__ and error.__traceback__.tb_next
        summary = traceback.TracebackException(type(error), error, trace, compact=True)
        _trim(summary, set())
        text = "".join(summary.format())
    except (MemoryError, RecursionError):
        text = f"{type(error).__name__}: its traceback could not be made\n"
    if len(text) > _LONGEST_TRACEBACK:
        half = _LONGEST_TRACEBACK // 2
        text = f"{text[:half]}\n[...]\n{text[-half:]}"
    return text


def _trim(summary, seen):
    if summary is None or id(summary) in seen:
        return
    seen.add(id(summary))
    own = [frame for frame in summary.stack if not frame.filename.startswith(_INTERNAL)]
    summary.stack = traceback.StackSummary.from_list(own)
    _trim(summary.__cause__, seen)
    _trim(summary.__context__, seen)
    for inner in getattr(summary, "exceptions", None) or ():
        _trim(inner, seen)


_image.seal()
gc.collect()
gc.freeze()
