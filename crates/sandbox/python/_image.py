"""What the image holds: modules already imported, the rest of the standard library as code in memory, and the places where
Python meets a world that a guest does not have.
"""

import importlib.abc
import importlib.machinery
import marshal
import os
import sys

import _absent
import _stream

# Imported when the image is made, so that a program's import of them costs nothing.
_PRELOADED = """
    _pydatetime _strptime abc argparse array ast asyncio atexit base64 binascii bisect calendar cmath codecs collections
    collections.abc colorsys concurrent.futures configparser contextlib contextvars copy copyreg csv dataclasses datetime
    decimal difflib email.message enum fnmatch fractions functools gc glob graphlib hashlib heapq hmac html html.parser
    inspect io itertools json keyword linecache locale logging marshal math numbers operator os pathlib pickle posixpath
    pprint queue random re reprlib sched secrets shlex shutil socket statistics string struct subprocess sys tempfile
    textwrap threading time timeit token tokenize traceback types typing unicodedata urllib.parse uuid warnings weakref
    xml.etree.ElementTree zoneinfo
""".split()

# Code that a program could import, by module name: whether it is a package, and its marshalled code.
_code = {}
_ROOT = "/lib"
_OWN = ("_boot", "_image", "_absent", "_stream", "_loop", "_warm", "_sysconfigdata__wasi_wasm32-wasi")


class _FromMemory(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports what the image holds. There is nothing else to import from (W-158)."""

    def find_spec(self, name, path=None, target=None):
        if name in _code:
            return importlib.machinery.ModuleSpec(name, self, is_package=_code[name][0])
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(marshal.loads(_code[module.__spec__.name][1]), module.__dict__)

    def get_code(self, name):
        return marshal.loads(_code[name][1])

    def get_source(self, name):
        return None

    def is_package(self, name):
        return _code[name][0]


def prepare():
    """Run first: brings in the modules and makes their randomness and time the guest's own."""
    _open_output()
    _stream.install()
    for name in _PRELOADED:
        __import__(name)
    _stream.install_uuid()
    import _loop

    _loop.install()
    _add_site_builtins()


def seal():
    """Run last: keeps the rest of the library, and takes the build's file system away."""
    _keep(_ROOT, "")
    finders = [finder for finder in sys.meta_path if finder is not importlib.machinery.PathFinder]
    sys.meta_path[:] = [*finders, _FromMemory()]
    sys.path[:] = []
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    os.environ.clear()
    _absent.install()
    _sleep_is_a_wait()


def _keep(folder, prefix):
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        module = prefix + name.removesuffix(".py")
        if name.endswith(".py"):
            package = name == "__init__.py"
            module = prefix[:-1] if package else module
            if module in sys.modules or module in _OWN or module.startswith("stasis"):
                continue
            with open(path, "rb") as file:
                code = compile(file.read(), path, "exec", dont_inherit=True)
            _code[module] = (package, marshal.dumps(code))
        elif os.path.isdir(path):
            _keep(path, f"{module}.")


def _open_output():
    import io

    from stasis import _output

    global _lines
    sys.stdout, out = _output.stream()
    sys.stderr, error = _output.stream()
    sys.stdin = io.StringIO()
    _lines = (out, error)


def end_output():
    """Sends what has no newline yet."""
    for lines in _lines:
        lines.end()


def _add_site_builtins():
    """What Python's `site` adds to the builtins, and programs expect."""
    import _sitebuiltins
    import builtins

    builtins.exit = _sitebuiltins.Quitter("exit", "nothing more to type")
    builtins.quit = _sitebuiltins.Quitter("quit", "nothing more to type")
    builtins.help = _sitebuiltins._Helper()


def _sleep_is_a_wait():
    import time

    import stasis

    def sleep(seconds, /):
        """Waits for a timer, as stasis.sleep does."""
        if isinstance(seconds, str):
            raise TypeError("'str' object cannot be interpreted as a number of seconds")
        stasis.sleep(seconds)

    time.sleep = sleep
