"""Values of Python as plain data and arrays, exactly, and back.

Texts, whole numbers, finite floats, True, False, None and lists are themselves. Everything else is
an object with one tag, from a fixed list: nothing that is read can name code.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from gapmix.kinds import ColumnValues
from gapmix.plan.forests import TreeOptions
from gapmix.selection.sizes import Candidate
from gapmix.shapes import Shape
from gapmix.storage.recordfile import ModelFileError

MAX_DEPTH = 8
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
# The dtypes whose values are all held exactly by float64 or int64.
FLOATS = ("float16", "float32", "float64")
WHOLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
# Named tuples that may stand in a file.
RECORDS: dict[str, Any] = {
    each.__name__: each for each in (TreeOptions, Candidate, ColumnValues, Shape)
}
RANDOM = (np.random.RandomState, np.random.Generator, np.random.SeedSequence)


def encode(value: Any, name: str, arrays: dict[str, np.ndarray] | None = None) -> Any:
    """Return `value` as plain data; `name` is what messages call it.

    An array goes to `arrays` under `name` if these are given, otherwise its numbers are listed.
    Random generators become None: their state belongs to a process, not to a model.
    """
    if isinstance(value, np.ndarray):
        return _encode_array(value, name, arrays)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if type(value).__name__ in RECORDS and type(value) is RECORDS[type(value).__name__]:
        fields = value._asdict()
        plain = {key: encode(fields[key], f"{name}.{key}") for key in fields}
        return {"record": {"type": type(value).__name__, "fields": plain}}
    if isinstance(value, RANDOM):
        return {"none": type(value).__name__}
    if type(value) in (list, tuple):
        items = [encode(item, f"{name}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if type(value) is dict:
        pairs = [[encode(key, f"a key of {name}"), encode(value[key], name)] for key in value]
        return {"dict": pairs}
    if callable(value):
        raise ModelFileError(
            f"{name} is a function ({_show(value)}), and a model file holds no code. Set it to a "
            "name or to None with set_params before saving; the fitted numbers stay as they are."
        )
    if hasattr(value, "__array__"):  # data frames and the like
        return _encode_array(np.asarray(value), name, arrays)
    raise ModelFileError(
        f"{name} is a {type(value).__name__} ({_show(value)}), which a model file cannot hold. Use "
        "numbers, texts, arrays, lists, tuples or dicts of these, or set it to None before saving."
    )


def decode(value: Any, arrays: dict[str, np.ndarray], depth: int = 0) -> Any:
    """Return what `encode` was given; `arrays` holds what it put there."""
    if depth > MAX_DEPTH:
        raise ModelFileError(f"A value is nested more than {MAX_DEPTH} deep.")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [decode(item, arrays, depth + 1) for item in value]
    if not isinstance(value, dict) or len(value) != 1:
        raise ModelFileError(f"A value must have one tag, not be {_show(value)}.")
    (tag, inner), *_ = value.items()
    try:
        return _decode_tagged(tag, inner, arrays, depth + 1)
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"The value {_show(value)} cannot be read: {error}.") from error


def _decode_tagged(tag: str, inner: Any, arrays: dict[str, np.ndarray], depth: int) -> Any:
    if tag == "float":
        return SPECIAL[inner]
    if tag == "none" and isinstance(inner, str):
        return None
    if tag == "tuple" and isinstance(inner, list):
        return tuple(decode(item, arrays, depth) for item in inner)
    if tag == "dict" and isinstance(inner, list):
        return {decode(key, arrays, depth): decode(item, arrays, depth) for key, item in inner}
    if tag == "record" and isinstance(inner, dict) and set(inner) == {"type", "fields"}:
        fields = {key: decode(item, arrays, depth) for key, item in inner["fields"].items()}
        return RECORDS[inner["type"]](**fields)  # a field it does not have is a TypeError
    if tag == "array" and isinstance(inner, dict) and set(inner) == {"name", "dtype"}:
        return _narrow(arrays[inner["name"]], inner["dtype"])
    if tag == "numbers" and isinstance(inner, dict) and set(inner) == {"values", "dtype", "shape"}:
        listed: np.ndarray = np.array(decode(inner["values"], {}, depth), _wide(inner["dtype"]))
        return _narrow(listed.reshape(inner["shape"]), inner["dtype"])
    if tag in ("texts", "objects") and isinstance(inner, list):
        values = [decode(item, {}, depth) for item in inner]
        if tag == "texts":
            return np.array([_text(item) for item in values], dtype=np.str_)
        result = np.empty(len(values), dtype=object)
        result[:] = values
        return result
    raise ModelFileError(f"The tag {_show(tag)} is not known, or holds {_show(inner)}.")


def _encode_array(array: np.ndarray, name: str, arrays: dict[str, np.ndarray] | None) -> Any:
    kind = array.dtype.name
    if kind in (*FLOATS, *WHOLE):
        wide: np.ndarray = np.array(array, _wide(kind), order="C")
        if arrays is None:
            values = [encode(item, name) for item in wide.reshape(-1).tolist()]
            return {"numbers": {"values": values, "dtype": kind, "shape": list(array.shape)}}
        arrays[name] = wide
        return {"array": {"name": name, "dtype": kind}}
    if array.ndim == 1 and array.dtype.kind == "U":
        return {"texts": [str(item) for item in array]}
    if array.ndim == 1 and array.dtype == object:
        return {"objects": [encode(item, f"{name}[{i}]") for i, item in enumerate(array)]}
    raise ModelFileError(
        f"{name} is an array of dtype {array.dtype} and shape {array.shape}, which a model file "
        "cannot hold exactly. Convert it to float64, int64 or a one-dimensional array of texts."
    )


def _wide(kind: Any) -> type:
    if kind in FLOATS:
        return np.float64
    if kind in WHOLE:
        return np.int64
    raise ModelFileError(f"The dtype {_show(kind)} is not known.")


def _narrow(array: np.ndarray, kind: Any) -> np.ndarray:
    """Return an array in its own dtype, which holds all its values."""
    if array.dtype != _wide(kind):
        raise ModelFileError(f"An array of dtype {array.dtype} cannot stand for {_show(kind)}.")
    with np.errstate(over="ignore"):
        result = array.astype(kind, copy=False)
    if not np.array_equal(result, array, equal_nan=kind in FLOATS):
        raise ModelFileError(f"An array said to be of dtype {_show(kind)} has values beyond it.")
    return result


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ModelFileError(f"{_show(value)} stands where a text should.")
    return value


def _show(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
