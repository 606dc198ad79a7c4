"""Python to JSON and back, exactly (W-261, W-262).

Only the built-in types are written, and written by the built-in types' own methods, so no code of the program runs while its
arguments are encoded.
"""

import json

_quote = json.encoder.encode_basestring
_INFINITY = float("inf")
_DEEPEST = 200


def encode(value, place):
    """JSON text for `value`, or a TypeError that names the place within `place`."""
    parts = []
    try:
        _write(value, place, parts, 0)
    except RecursionError:
        raise TypeError(f"{place}: nested too deeply for JSON") from None
    text = "".join(parts)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TypeError(f"{place}: a str with a lone surrogate (U+{ord(text[error.start]):04X}) is not JSON") from None
    return text


def decode(text):
    """The Python value of JSON text: numbers without fraction and exponent are int, all others float."""
    return json.loads(text)


def _write(value, place, parts, depth):
    if depth > _DEEPEST:
        raise TypeError(f"{place}: nested too deeply for JSON")
    if value is None:
        parts.append("null")
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif isinstance(value, str):
        parts.append(_quote(str.__str__(value)))
    elif isinstance(value, int):
        parts.append(_digits(value, place))
    elif isinstance(value, float):
        parts.append(_float(value, place))
    elif isinstance(value, (list, tuple)):
        _write_array(value, place, parts, depth)
    elif isinstance(value, dict):
        _write_object(value, place, parts, depth)
    else:
        raise TypeError(f"{place}: {type(value).__name__} is not JSON")


def _write_array(value, place, parts, depth):
    items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
    opening = "["
    for index, item in enumerate(items):
        parts.append(opening)
        opening = ","
        _write(item, f"{place}[{index}]", parts, depth + 1)
    parts.append("[]" if opening == "[" else "]")


def _write_object(value, place, parts, depth):
    opening = "{"
    for key, item in dict.items(value):
        if not isinstance(key, str):
            raise TypeError(f"{place}: a key is {type(key).__name__}, not str")
        key = str.__str__(key)
        parts.append(opening + _quote(key) + ":")
        opening = ","
        _write(item, f"{place}.{key}", parts, depth + 1)
    parts.append("{}" if opening == "{" else "}")


def _digits(value, place):
    try:
        return int.__repr__(value)
    except ValueError:
        raise TypeError(f"{place}: an int of so many digits is not written") from None


def _float(value, place):
    if value != value or value in (_INFINITY, -_INFINITY):
        raise TypeError(f"{place}: {float.__repr__(value)} is not JSON")
    return float.__repr__(value)
