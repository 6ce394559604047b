"""Damaged and hostile model files give an error that says what is wrong, never anything worse."""

from __future__ import annotations

import copy
import hashlib
import json
import tracemalloc

import numpy as np
import pytest
from tests.conftest import size

import gapmix
from gapmix.modelfile.files import ModelFileError

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3)) + [10.0, 0.0, -5.0]
    x[rng.random(x.shape) < 0.3] = np.nan
    return x


@pytest.fixture(scope="module")
def saved(rows, tmp_path_factory) -> list[bytes]:
    """Return the bytes of a few models; the first is the one that is damaged most."""
    path = tmp_path_factory.mktemp("models") / "m"
    settings = (
        {"shrinkage": 2.0, "means_init": np.repeat([[0.0], [1.0]], 3, axis=1)},
        {"covariance_type": "tied", "solver": "tree"},
        {"covariance_type": "diag", "validation_fraction": 0.2},
        {"covariance_type": "spherical"},
    )
    result = []
    for more in settings:
        mixture = gapmix.GaussianMixture(2, random_state=0, tol=1e-2, **more).fit(rows)
        gapmix.save(mixture, path)
        result.append(path.read_bytes())
    return result


def take_apart(data: bytes) -> tuple[dict, dict, bytes]:
    """Return header, record and arrays of a file, read as the documentation tells."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["record"]), data[8 + length :]


def put_together(header, record, arrays: bytes, *, sign: bool = True, text: str = "") -> bytes:
    """Return a file of these, with the checksum it should have unless `sign` is off."""
    header = copy.deepcopy(header)
    if sign:
        header["__metadata__"]["sha256"] = "0" * 64
    if record is not None:
        header["__metadata__"]["record"] = json.dumps(record)
    raw = (text or json.dumps(header, separators=(",", ":"))).encode("utf-8", "surrogatepass")
    data = len(raw).to_bytes(8, "little") + raw + arrays
    if not sign:
        return data
    digest = hashlib.sha256(data).hexdigest()
    return data.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest.encode(), 1)


def test_a_file_taken_apart_and_put_together_loads(saved, tmp_path):
    for data in saved:
        (tmp_path / "m").write_bytes(put_together(*take_apart(data)))
        assert gapmix.load(tmp_path / "m").means_.shape == (2, 3)


# ---------------------------------------------------------------- one of each, by its message


def edit_header(change):
    def edit(data):
        header, record, arrays = take_apart(data)
        return put_together(change(header) or header, record, arrays)

    return edit


def edit_record(change):
    def edit(data):
        header, record, arrays = take_apart(data)
        change(record["content"])
        return put_together(header, record, arrays)

    return edit


def edit_record_text(change):
    def edit(data):
        header, record, arrays = take_apart(data)
        header["__metadata__"]["record"] = change(json.dumps(record))
        return put_together(header, None, arrays)

    return edit


def without_weights(data):
    header, record, arrays = take_apart(data)
    begin, end = header.pop("weights")["data_offsets"]
    assert end == len(arrays)
    return put_together(header, record, arrays[:begin])


def edit_array(name, change):
    def edit(data):
        header, record, arrays = take_apart(data)
        begin, end = header[name]["data_offsets"]
        dtype = {"F64": float, "I64": np.int64}[header[name]["dtype"]]
        array = np.frombuffer(arrays[begin:end], dtype).reshape(header[name]["shape"]).copy()
        change(array)
        return put_together(header, record, arrays[:begin] + array.tobytes() + arrays[end:])

    return edit


def edit_text(old, new):
    def edit(data):
        header, _, arrays = take_apart(data)
        text = json.dumps(header, separators=(",", ":"))
        assert old in text
        return put_together(header, None, arrays, sign=False, text=text.replace(old, new, 1))

    return edit


def set_header(name, key, value):
    return edit_header(lambda header: header[name].update({key: value}))


def set_array(name, place, value):
    return edit_array(name, lambda array: array.__setitem__(place, value))


def set_entry(*path_and_value):
    *path, last, value = path_and_value

    def change(content):
        for key in path:
            content = content[key]
        content[last] = value

    return edit_record(change)


def deep(opening: str, closing: str) -> str:
    return opening * 100_000 + closing * 100_000


CASES = {
    # the eight bytes
    "no bytes": (lambda data: b"", "is empty"),
    "three bytes": (lambda data: data[:3], "has only 3 bytes"),
    "header beyond 1 MiB": (
        lambda data: (2**20 + 1).to_bytes(8, "little") + data[8:],
        "would mean a header of 1,048,577 bytes, and 2 to 1,048,576 are possible",
    ),
    "header of 2^64": (lambda data: b"\xff" * 8 + data[8:], "18,446,744,073,709,551,615 bytes"),
    "header beyond the file": (
        lambda data: (2**19).to_bytes(8, "little") + data[8:],
        "header should have 524,288 bytes, but the whole file has",
    ),
    "header cut": (lambda data: data[:100], "cut short"),
    # the text
    "not an object": (lambda data: data[:8] + b"[" + data[9:], "has no JSON header"),
    "not UTF-8": (lambda data: data[:20] + b"\xff\xfe" + data[22:], "not JSON in UTF-8"),
    "not JSON": (lambda data: data[:9] + b"x" + data[10:], "not JSON in UTF-8"),
    "key twice": (edit_text('"means":', '"weights":'), "has the key 'weights' twice"),
    "key twice inside": (
        edit_text('"dtype":"F64"', '"dtype":"F64","dtype":"F64"'),
        "has the key 'dtype' twice",
    ),
    "metadata twice": (
        edit_text('{"__metadata__"', '{"__metadata__":{},"__metadata__"'),
        "has the key '__metadata__' twice",
    ),
    "NaN": (edit_text('"data_offsets":[0,', '"data_offsets":[NaN,'), "holds NaN, which is not"),
    "deep lists": (
        edit_text('"data_offsets":[0,', '"data_offsets":[' + deep("[", "]") + ","),
        "nested too deeply",
    ),
    "deep objects": (
        edit_text('"data_offsets":[0,', '"data_offsets":[' + deep('{"a":', "}") + ","),
        "nested too deeply",
    ),
    "digits": (
        edit_text('"data_offsets":[0,', '"data_offsets":[' + "9" * 10_000 + ","),
        "not JSON in UTF-8|not two places",
    ),
    # what it says of the arrays
    "float32": (set_header("means", "dtype", "F32"), "dtype 'F32'; only F64 and I64"),
    "dtype a number": (set_header("means", "dtype", 7), "dtype 7; only F64 and I64"),
    "dtype a list": (set_header("means", "dtype", ["F64"]), "only F64 and I64"),
    "negative size": (set_header("means", "shape", [-2, -3]), "not a list of at most 4 sizes"),
    "size of floats": (set_header("means", "shape", [2.0, 3.0]), "not a list of at most 4 sizes"),
    "size of bools": (set_header("means", "shape", [True, 6]), "not a list of at most 4 sizes"),
    "five sizes": (set_header("means", "shape", [1, 1, 1, 2, 3]), "at most 4 sizes"),
    "empty and huge": (set_header("means", "shape", [0, 2**40]), "at most 4 sizes"),
    "no shape": (set_header("means", "shape", None), "at most 4 sizes"),
    "too large": (set_header("means", "shape", [2**40, 2**47]), "needs 12379.* bytes"),
    "another size": (set_header("means", "shape", [2, 4]), "needs 64 bytes.* give 48"),
    "turned": (set_header("means", "shape", [3, 2]), r"means has shape \(3, 2\).*must have shape"),
    "negative place": (set_header("means", "data_offsets", [-48, 0]), "not two places"),
    "backwards": (set_header("means", "data_offsets", [48, 0]), "give -48"),
    "three places": (set_header("means", "data_offsets", [0, 48, 48]), "not two places"),
    "overlap": (set_header("means", "data_offsets", [0, 48]), "overlaps another"),
    "hole": (
        edit_header(lambda header: header.pop("covariances") and None),
        "leaves a hole before it",
    ),
    "beyond the end": (
        set_header("weights", "data_offsets", [2**40, 2**40 + 16]),
        "leaves a hole before it",
    ),
    "cut short": (lambda data: data[:-8], "the file was cut short"),
    "appended": (lambda data: data + b"x", "the file has something appended"),
    "more fields": (set_header("means", "code", "x"), "described by dtype, shape and data_offsets"),
    "no description": (edit_header(lambda header: header.update(means=3)), "described by dtype"),
    "unknown array": (
        edit_header(lambda header: header.update(colour=header.pop("means"))),
        "Array 'colour' has no place in a GaussianMixture",
    ),
    "array of a part": (
        edit_header(lambda header: header.update({"mixture.0.means": header.pop("means")})),
        "'mixture.0.means' has no place in a GaussianMixture",
    ),
    "whole as float": (
        set_header("event.text", "dtype", "F64"),
        "event.text has shape .* must have .* dtype int64",
    ),
    "optional array renamed": (
        edit_header(lambda header: header.update({"settings.tol": header.pop("target")})),
        "'settings.tol' has no place in the settings",
    ),
    "an array less": (without_weights, "'weights' is missing from the arrays of a mixture"),
    # metadata
    "another program": (
        edit_header(lambda header: header.update(__metadata__={"format": "pt"})),
        "safetensors file of another program",
    ),
    "newer": (set_header("__metadata__", "gapmix", "3"), "format 3 and .* up to 2. Install"),
    "odd version": (set_header("__metadata__", "gapmix", "one"), "format 'one' is not known"),
    "version a number": (set_header("__metadata__", "gapmix", 1), "format 1 is not known; use 1"),
    "more metadata": (set_header("__metadata__", "x", "y"), "metadata must be the texts"),
    "checksum gone": (
        edit_text('"sha256":"', '"sha256":"X'),
        "checksum 'X[0-9a-f]+.* is not a SHA-256",
    ),
    "checksum wrong": (
        lambda data: data.replace(
            take_apart(data)[0]["__metadata__"]["sha256"].encode(), b"a" * 64
        ),
        "checksum does not agree",
    ),
    "one number changed": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "checksum does not"),
    "record not JSON": (edit_record_text(lambda text: "{"), "record is not JSON"),
    "record a list": (edit_record_text(lambda text: "[]"), "record is not a JSON object"),
    "record key twice": (
        edit_record_text(lambda text: text.replace('"fit"', '"plan"')),
        "record has the key 'plan' twice",
    ),
    "record with more": (
        edit_record_text(lambda text: text[:-1] + ', "code": "x"}'),
        "must have the entries 'kind' and 'content', no others",
    ),
    # the record
    "a class by its path": (
        edit_record_text(lambda text: text.replace('"GaussianMixture"', '"os.system"')),
        "holds 'os.system', which is none of GaussianMixture",
    ),
    "kind a list": (
        edit_record_text(lambda text: text.replace('"GaussianMixture"', "[]")),
        r"holds \[\], which is none of",
    ),
    "unknown parameter": (set_entry("settings", "colour", 1), "no parameter 'colour'"),
    "unknown tag": (set_entry("settings", "tol", {"eval": "1"}), "tag 'eval' is not known"),
    "two tags": (set_entry("settings", "tol", {"float": "nan", "x": 1}), "must have one tag"),
    "a record of no type": (
        set_entry("settings", "solver", {"record": {"type": "Popen", "fields": {}}}),
        "cannot be read: 'Popen'",
    ),
    "a field it has not": (
        set_entry("settings", "solver", {"record": {"type": "TreeOptions", "fields": {"x": 1}}}),
        "cannot be read: .*unexpected keyword",
    ),
    "an array that is not there": (
        set_entry("settings", "tol", {"array": {"name": "settings.tol", "dtype": "float64"}}),
        "'settings.tol' is missing from the settings",
    ),
    "an array of another dtype": (
        set_entry("settings", "means_init", {"array": {"name": "means", "dtype": "int8"}}),
        "cannot stand for 'int8'",
    ),
    "nested values": (
        set_entry("settings", "tol", [[[[[[[[[[[1]]]]]]]]]]]),
        "nested more than 8 deep",
    ),
    "no settings": (
        edit_record(lambda content: content.pop("settings")),
        "'settings' must be dict",
    ),
    "no columns": (set_entry("columns", "count", 0), "has 0 columns"),
    "columns a bool": (set_entry("columns", "count", True), "'count' must be int, and is bool"),
    "a column more": (set_entry("columns", "count", 4), r"must have shape \(2, 4"),
    "columns in billions": (set_entry("columns", "count", 10**30), "file only [0-9]+ numbers"),
    "too many columns": (set_entry("columns", "count", 9), "must have shape"),
    "too few names": (set_entry("columns", "names", ["a"]), "1 names are given to 3 columns"),
    "names of numbers": (set_entry("columns", "names", [1, 2, 3]), "or not texts"),
    "covariance type": (set_entry("covariance_type", "round"), "type 'round' is not known"),
    "another covariance type": (set_entry("covariance_type", "diag"), "covariances has shape"),
    "unknown solver": (set_entry("plan", "solver", "os"), r"no known solver \('os'\)"),
    "seconds": (set_entry("plan", "seconds", {"dual": None}), "seconds must be numbers"),
    "infinite seconds": (
        edit_record(lambda content: content["plan"]["seconds"].update(dual=10**400)),
        "seconds must be numbers",
    ),
    "bounds": (set_entry("plan", "bounds", [[]]), "bounds must be names"),
    "no plan": (set_entry("plan", None), "'plan' must be dict, and is NoneType"),
    "events": (set_entry("fit", "events", [3] * 9), "events of a fit must be texts"),
    "events gone": (set_entry("fit", "events", []), "Event 0 of iteration 0 does not exist"),
    "lower bound": (set_entry("fit", "lower_bound", "x"), "must be float, and is str"),
    # the numbers
    "NaN mean": (set_array("means", (0, 1), np.nan), "means holds a number that is not finite"),
    "infinite": (set_array("covariances", (0, 0, 0), np.inf), "not finite"),
    "NaN history": (set_array("history.objective", 0, np.nan), "history.objective holds"),
    "negative weight": (
        set_array("weights", ..., [1.5, -0.5]),
        "must be finite and at least 0|must sum to 1",
    ),
    "weights of 2": (set_array("weights", ..., 1.0), "must be finite and at least 0|must sum to 1"),
    "negative variance": (
        set_array("covariances", (0, 0, 0), -1.0),
        "covariances must be positive",
    ),
    "singular": (set_array("covariances", ..., 1.0), "Component 0.*not positive definite"),
    "not symmetric": (
        set_array("covariances", (1, 0, 1), 99.0),
        "Component 1: the covariance is not symmetric",
    ),
    "factor": (
        set_array("precisions_cholesky", (1, 2, 2), -1.0),
        "precisions_cholesky must be positive on the diagonal",
    ),
    "scale 3": (set_array("scaling.scale", 0, 3.0), "must be powers of two"),
    "scale 0": (set_array("scaling.scale", 0, 0.0), "must be powers of two"),
    "scale 2^-1000": (set_array("scaling.scale", 0, 2.0**-1000), "must be powers of two"),
    "centre 1e305": (set_array("scaling.center", 0, 1e305), "centres must lie below 1e[+]300"),
    "mean 1e300": (set_array("means", (0, 0), 1e300), "more than 1e[+]100 standard deviations"),
    "variance 1e300": (set_array("covariances", (1, 0, 0), 1e300), "Component 1: a variance is"),
    "known 2": (set_array("scaling.known", 0, 2), "scaling.known must hold 0 and 1"),
    "event far away": (set_array("event.iteration", 0, 10**12), "does not exist"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_damage_is_told(name, saved, tmp_path):
    damage, message = CASES[name]
    path = tmp_path / "m"
    path.write_bytes(damage(saved[0]))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=message) as caught:
            gapmix.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) < 600 + len(str(path))
    assert peak <= 2 * path.stat().st_size + 50 * MEGABYTE


HUNGRY = {  # JSON of about n bytes that becomes as many objects as possible
    "empty lists": lambda n: "[" + "[]," * (n // 3) + "0]",
    "empty objects": lambda n: "[" + "{}," * (n // 3) + "0]",
    "short keys": lambda n: "{" + ",".join(f'"{i:05x}":0' for i in range(n // 10)) + "}",
    "wide texts": lambda n: '"' + "\U0001f600" * (n // 4) + '"',
}


@pytest.mark.parametrize("inside", [False, True], ids=["header", "record"])
@pytest.mark.parametrize("name", HUNGRY)
def test_a_header_of_one_megabyte_takes_less_than_fifty(name, inside, saved, tmp_path):
    header, _, arrays = take_apart(saved[0])
    room = MEGABYTE - len(json.dumps(header)) - 100
    if inside:  # what is not ASCII is escaped there, and so are quotes
        room //= {"short keys": 1.2, "wide texts": 3}.get(name, 1)
        value = HUNGRY[name](int(room))
        header["__metadata__"]["record"] = f'{{"kind": 1, "content": {{"x": {value}}}}}'
        data, message = put_together(header, None, arrays), "The file holds 1, which is none of"
    else:
        text = json.dumps(header)[:-1] + f', "x": {HUNGRY[name](room)}' + "}"
        data = put_together(header, None, arrays, sign=False, text=text)
        message = "Array 'x' must be described by"
    assert len(data) > 0.9 * MEGABYTE
    path = tmp_path / "m"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=message):
            gapmix.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 50 * MEGABYTE


# ---------------------------------------------------------------- thousands, at random


def flip_bits(rng, data, saved):
    damaged = bytearray(data)
    for _ in range(rng.integers(1, 9)):
        damaged[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return bytes(damaged)


def flip_header_bits(rng, data, saved):
    damaged = bytearray(data)
    length = int.from_bytes(data[:8], "little")
    damaged[rng.integers(8 + length)] ^= 1 << rng.integers(8)
    return bytes(damaged)


def set_bytes(rng, data, saved):
    place, n = rng.integers(len(data)), rng.integers(1, 40)
    return data[:place] + rng.bytes(n) + data[place + n :]


def truncate(rng, data, saved):
    return data[: rng.integers(len(data))]


def append(rng, data, saved):
    return data + rng.bytes(rng.integers(1, 5000))


def splice(rng, data, saved):
    other = saved[rng.integers(len(saved))]
    a, b = sorted(rng.integers(len(data), size=2))
    c, d = sorted(rng.integers(len(other), size=2))
    return data[:a] + other[c:d] + data[b:]


def drop(rng, data, saved):
    a = rng.integers(len(data))
    return data[:a] + data[a + rng.integers(1, 100) :]


def repeat(rng, data, saved):
    a, n = rng.integers(len(data)), rng.integers(1, 200)
    return data[: a + n] + data[a:]


def change_length(rng, data, saved):
    length = int.from_bytes(data[:8], "little")
    choices = (length + int(rng.integers(-64, 65)), int(rng.integers(2**62)), 2**20, 2, 0)
    return max(0, choices[rng.integers(5)]).to_bytes(8, "little") + data[8:]


HOSTILE = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, 2**64, 10**40, 0.5, 1e308, "", "x", "F64"),
    *([], [0], [0, 8], [[]], {}, {"float": "nan"}, {"dict": [[1]]}, {"tuple": 3}, {"": ""}),
    *(
        {"array": {}},
        {"dict": [[[], 1]]},
        {"numbers": {"values": [1], "dtype": "int8", "shape": [9]}},
    ),
    *({"texts": [1]}, {"none": 0}, {"record": {"type": [], "fields": []}}, "\ud800", "a" * 5000),
    *({"array": {"name": [], "dtype": []}}, {"record": {"type": "TreeOptions", "fields": 1}}),
    {"numbers": {"values": [10**30], "dtype": "int64", "shape": [-1]}},
    {"array": {"name": "means", "dtype": "float16"}},
)


def places(tree):
    """Yield the way to every value inside."""
    if isinstance(tree, dict | list):
        for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield (key,)
            yield from ((key, *rest) for rest in places(item))


def change_tree(rng, tree):
    """Change one value somewhere inside: another value, gone, doubled, or its neighbour's."""
    ways = [path for path in places(tree) if path]
    *path, last = ways[rng.integers(len(ways))]
    inner = tree
    for key in path:
        inner = inner[key]
    way = rng.integers(5)
    if way == 0:
        del inner[last]
    elif way == 1 and isinstance(inner, dict):
        inner[f"{last}{rng.integers(10)}"] = copy.deepcopy(inner[last])
    elif way == 2 and isinstance(inner[last], int):
        inner[last] += int(rng.integers(-20, 21))
    elif way == 3:
        source = ways[rng.integers(len(ways))]
        value = tree
        for key in source:
            if not isinstance(value, dict | list) or (isinstance(value, dict) and key not in value):
                return
            value = value[key]
        inner[last] = copy.deepcopy(value)
    else:
        inner[last] = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])


def change_header(rng, data, saved):
    header, record, arrays = take_apart(data)
    header["__metadata__"]["record"] = json.dumps(record)
    for _ in range(rng.integers(1, 3)):
        change_tree(rng, header)
    if not isinstance(header.get("__metadata__"), dict):
        return put_together(header, None, arrays, sign=False)
    return put_together(header, None, arrays)


def change_record(rng, data, saved):
    header, record, arrays = take_apart(data)
    for _ in range(rng.integers(1, 3)):
        change_tree(rng, record)
    return put_together(header, record, arrays)


def change_numbers(rng, data, saved):
    header, record, arrays = take_apart(data)
    values = np.frombuffer(arrays, np.float64).copy()
    odd = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 5e-324, 1.0, 2.0**-400, 1e16)
    for _ in range(rng.integers(1, 4)):
        values[rng.integers(values.size)] = odd[rng.integers(len(odd))]
    return put_together(header, record, values.tobytes())


UNSIGNED = (
    *(flip_bits, flip_header_bits, set_bytes, truncate, append, splice, drop, repeat),
    change_length,
)
SIGNED = (change_header, change_record, change_numbers)


def check_usable(model, rows) -> None:
    """Check that a changed model with a right checksum, if it loads, at least does no harm."""
    assert type(model) is gapmix.GaussianMixture
    repr(model)
    assert model.plan_.explain()
    if model.n_features_in_ == 3 and (model.n_jobs is None or type(model.n_jobs) is int):
        model.set_params(n_jobs=1)
        with np.errstate(all="ignore"):
            filled = model.impute(rows)
        assert filled.shape == rows.shape
        np.testing.assert_array_equal(filled[~np.isnan(rows)], rows[~np.isnan(rows)])


def load_traced(path):
    """Return the model or None, the message of the error if there was one, and the peak memory."""
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    model, message = None, ""
    try:
        model = gapmix.load(path)
    except ModelFileError as error:
        message = str(error)
    return model, message, tracemalloc.get_traced_memory()[1] - before


def test_thousands_of_damaged_files_give_errors_and_little_memory(saved, rows, tmp_path):
    path = tmp_path / "m"
    n_loaded = n_refused_later = most = 0
    tracemalloc.start()
    try:
        for case in range(size(500, 10_000)):
            rng = np.random.default_rng(case)
            change = (*UNSIGNED, *SIGNED)[case % (len(UNSIGNED) + len(SIGNED))]
            data = saved[rng.integers(len(saved))]
            damaged = change(rng, data, saved)
            path.write_bytes(damaged)
            model, message, peak = load_traced(path)
            most = max(most, peak - 2 * len(damaged))
            if model is None:
                assert message.startswith(f"{path}: "), case
                assert len(message) > len(str(path)) + 10, case
                continue
            n_loaded += 1
            assert damaged == data or change in SIGNED, f"case {case}: {change.__name__}"
            try:
                check_usable(model, rows[:5])
            except ValueError:  # told when it is used
                n_refused_later += 1
    finally:
        tracemalloc.stop()
    print(f"{n_loaded} loaded, {n_refused_later} of them refused later; memory {most:,} bytes")
    assert most <= 50 * MEGABYTE
    assert n_loaded > 0  # some changes with a right checksum are as good as the original
