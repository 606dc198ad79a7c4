//! Names that a module or a function may not have, because Python code means something else by them (C-20).
//!
//! The lists are those of Python 3.13: `keyword.kwlist` and `keyword.softkwlist`, `dir(builtins)` and
//! `sys.stdlib_module_names`; names that no tool can have by its pattern (capitals, a leading underscore) are left out.

const KEYWORDS: &str = "and as assert async await break case class continue def del elif else except finally for from \
    global if import in is lambda match nonlocal not or pass raise return try type while with yield";

const BUILTINS: &str = "abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod \
    compile complex copyright credits delattr dict dir divmod enumerate eval exec exit filter float format frozenset \
    getattr globals hasattr hash help hex id input int isinstance issubclass iter len license list locals map max \
    memoryview min next object oct open ord pow print property quit range repr reversed round set setattr slice sorted \
    staticmethod str sum super tuple type vars zip";

const MODULES: &str = "abc antigravity argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 \
    calendar cmath cmd code codecs codeop collections colorsys compileall concurrent configparser contextlib \
    contextvars copy copyreg csv ctypes curses dataclasses datetime dbm decimal difflib dis doctest email encodings \
    ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt \
    getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib importlib inspect io ipaddress \
    itertools json keyword linecache locale logging lzma mailbox marshal math mimetypes mmap modulefinder msvcrt \
    multiprocessing netrc nt ntpath nturl2path numbers opcode operator optparse os pathlib pdb pickle pickletools \
    pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data \
    pyexpat queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve \
    shlex shutil signal site smtplib socket socketserver sqlite3 sre_compile sre_constants sre_parse ssl stat \
    statistics string stringprep struct subprocess symtable sys sysconfig syslog tabnanny tarfile tempfile termios \
    textwrap this threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle \
    turtledemo types typing unicodedata unittest urllib uuid venv warnings wave weakref webbrowser winreg winsound \
    wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

const OURS: &str = "stasis inputs result";

/// What a word means to Python or to us, if it may not be a module or a function.
pub(super) fn taken(word: &str) -> Option<&'static str> {
    let lists = [
        (KEYWORDS, "a Python keyword"),
        (BUILTINS, "a Python builtin"),
        (MODULES, "a module of Python's standard library"),
        (OURS, "a name of Stasis itself"),
    ];
    let list = lists.into_iter().find(|(list, _)| list.split_ascii_whitespace().any(|known| known == word));
    list.map(|(_, meaning)| meaning)
}
