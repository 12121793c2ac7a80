"""Looks at arguments where they come in, so that what is wrong is told by the name that the caller knows.

Each function gives the argument out as the library takes it, or raises TypeError for what is of another kind and
ValueError for what is out of range: "NAME is VALUE, expected …".
"""

import operator
import os
import reprlib
from typing import Any, NoReturn, Optional, Sequence, Tuple, Type

import numpy as np

MOST_U32 = (1 << 32) - 1
MOST_U64 = (1 << 64) - 1

_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 200


def refuse(kind: Type[Exception], name: str, value: Any, expected: str) -> NoReturn:
    raise kind(f"{name} is {_shown.repr(value)}, expected {expected}") from None


def integer(name: str, value: Any, least: int, most: int) -> int:
    """A whole number of any type that is one, but True and False."""
    expected = f"a whole number from {least} to {most}"
    try:
        number = operator.index(value)
    except TypeError:
        refuse(TypeError, name, value, expected)
    if isinstance(value, bool):
        refuse(TypeError, name, value, expected)
    if not least <= number <= most:
        refuse(ValueError, name, value, expected)
    return number


def size(name: str, value: Any) -> str:
    """A number of bytes, or a text, which the library reads."""
    if isinstance(value, str):
        _refuse_nul(name, value)
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        refuse(TypeError, name, value, "a number of bytes, or a text such as '200G'")
    return str(integer(name, value, 1, MOST_U64))


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        refuse(TypeError, name, value, "True or False")
    return bool(value)


def _listed(value: Any) -> Optional[Tuple[Any, ...]]:
    """What a sequence has in it; None for what is none."""
    try:
        return tuple(value)
    except TypeError:
        return None


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool)


def number(name: str, value: Any) -> float:
    """One number, whose range the library checks."""
    if not _is_number(value):
        refuse(TypeError, name, value, "a number")
    return float(value)


def numbers(name: str, value: Any, count: int) -> Tuple[float, ...]:
    """As many numbers, whose ranges the library checks."""
    found = _listed(value)
    if found is None or not all(map(_is_number, found)):
        refuse(TypeError, name, value, f"{count} numbers")
    if len(found) != count:
        refuse(ValueError, name, value, f"{count} numbers")
    return tuple(map(float, found))


def word(name: str, value: Any, words: Sequence[str]) -> str:
    expected = f"{', '.join(words[:-1])} or {words[-1]}"
    if not isinstance(value, str):
        refuse(TypeError, name, value, expected)
    if value not in words:
        refuse(ValueError, name, value, expected)
    return str(value)


def _refuse_nul(name: str, value: str) -> None:
    if "\0" in value:
        raise ValueError(f"{name} has a NUL character at {value.index(chr(0))}, where the library would take it to end")


def text(name: str, value: Any) -> Optional[str]:
    """A text or None. It may be a password, so that it is not shown."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{name} is of type {type(value).__name__}, expected a text")
    _refuse_nul(name, value)
    return value


def path(name: str, value: Any) -> str:
    try:
        given = os.fsdecode(value)
    except TypeError:
        refuse(TypeError, name, value, "a path")
    _refuse_nul(name, given)
    return given


def servers(name: str, value: Any) -> Optional[str]:
    """A list of servers, "A,B,…" or a sequence of them, as one text; None for None."""
    if value is None or isinstance(value, str):
        return text(name, value)
    listed = _listed(value)
    if listed is None or not all(isinstance(server, str) for server in listed):
        refuse(TypeError, name, value, "servers, as a text \"A,B\" or a sequence of texts")
    return text(name, ",".join(listed))


def function(name: str, value: Any) -> Any:
    """What can be called, or None."""
    if value is not None and not callable(value):
        refuse(TypeError, name, value, "a function or None")
    return value


def labels(name: str, value: Any, count: int, path: str) -> np.ndarray:
    """int32: a label for each class of the index; those below 0 are the library's to refuse."""
    try:
        given = np.asarray(value)
    except ValueError:  # rows of several lengths
        refuse(TypeError, name, value, "whole numbers")
    if given.dtype.kind not in "iu":
        refuse(TypeError, name, value, "whole numbers")
    if given.shape != (count,):
        raise ValueError(f"{name} has shape {given.shape}, expected one label for each of the {count} classes of "
                         f"'{path}'")
    bounds = np.iinfo(np.int32)
    wrong = given[(given < bounds.min) | (given > bounds.max)]
    if wrong.size:
        refuse(ValueError, f"a label of {name}", int(wrong[0]), f"numbers up to {bounds.max}")
    return np.ascontiguousarray(given, np.int32)
