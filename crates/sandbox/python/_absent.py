"""What a guest does not have: files, threads, sockets and processes. Using them raises an error that says so (W-157)."""

import builtins
import errno
import io
import os
import posix


_WRITING = set("wax+")
_FILES = "a guest has no files"
_NO_WRITING = "a guest has no writable files"
_NO_THREADS = "a guest has no threads: use stasis.parallel for calls at the same time, or asyncio"
_NO_SOCKETS = "a guest has no sockets: the tools of the plan are its only way out"
_NO_PROCESSES = "a guest has no processes"

# Functions of `os` that read the file system, and those that write to it.
_READING_CALLS = "access chdir listdir lstat readlink scandir stat statvfs open pathconf chroot".split()
_WRITING_CALLS = "chmod link mkdir mkfifo remove rename replace rmdir symlink truncate unlink utime chown lchown".split()
_PROCESS_CALLS = """
    execv execve execl execle execlp execlpe execvp execvpe fork forkpty popen posix_spawn posix_spawnp spawnl spawnle
    spawnv spawnve system kill killpg wait waitpid
""".split()
_THREAD_CALLS = "start_new_thread start_new start_joinable_thread".split()


def install():
    builtins.open = io.open = _open
    for module in (os, posix):
        for name in _READING_CALLS:
            _replace(module, name, _no_file)
        for name in _WRITING_CALLS:
            _replace(module, name, _no_writing)
    os.open = posix.open = _os_open
    for name in _PROCESS_CALLS:
        setattr(os, name, _raiser(name, OSError, errno.ENOSYS, _NO_PROCESSES))
    _install_threads()
    _install_sockets()
    # Given one, tempfile looks for no folder, and the error is that of the file.
    import tempfile

    tempfile.tempdir = "/tmp"


def _open(file, mode="r", *args, **options):
    """Raises OSError: a guest has no files."""
    if isinstance(file, int):
        raise OSError(errno.EBADF, _FILES, file)
    os.fspath(file)
    if _WRITING & set(mode):
        raise OSError(errno.EROFS, _NO_WRITING, file)
    raise FileNotFoundError(errno.ENOENT, _FILES, file)


_open.__name__ = _open.__qualname__ = "open"


def _os_open(path, flags, *args, **options):
    """Raises OSError: a guest has no files."""
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        raise OSError(errno.EROFS, _NO_WRITING, path)
    raise FileNotFoundError(errno.ENOENT, _FILES, path)


def _no_file(name):
    def absent(path=".", *args, **options):
        raise FileNotFoundError(errno.ENOENT, _FILES, path)

    return _named(absent, name)


def _no_writing(name):
    def absent(path=".", *args, **options):
        raise OSError(errno.EROFS, _NO_WRITING, path)

    return _named(absent, name)


def _raiser(name, kind, *args):
    def absent(*_, **__):
        raise kind(*args)

    return _named(absent, name)


def _named(function, name):
    function.__name__ = function.__qualname__ = name
    return function


def _replace(module, name, make):
    if hasattr(module, name):
        setattr(module, name, make(name))


def _install_threads():
    import _thread
    import threading

    for name in _THREAD_CALLS:
        _replace(_thread, name, lambda name: _raiser(name, RuntimeError, _NO_THREADS))
    threading._start_joinable_thread = _thread.start_joinable_thread


def _install_sockets():
    import socket

    class NoSocket(socket.socket):
        """`socket.socket`, of which none can be made."""

        def __init__(self, *args, **options):
            raise OSError(errno.ENOSYS, _NO_SOCKETS)

        def __del__(self):
            pass

    NoSocket.__name__ = NoSocket.__qualname__ = "socket"
    NoSocket.__module__ = "socket"
    socket.socket = NoSocket
    for name in ("getaddrinfo", "gethostbyname", "socketpair", "create_server"):
        setattr(socket, name, _raiser(name, OSError, errno.ENOSYS, _NO_SOCKETS))
