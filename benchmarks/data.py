"""The two real data sets, for benchmarks and experiments: MNIST and Abalone.

`GAPMIX_DATA` is looked at first: a folder with `mnist/train-images-idx3-ubyte.gz` and its three
companions, and `abalone/abalone.data`. Then OpenML is asked. Whatever the source, the content is
checked: the numbers behind published figures must be those numbers.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import fetch_openml

SIDE = 28  # pixels
SEXES = ("M", "F", "I")  # coded 0, 1, 2 in the order of first appearance
N_TRAIN = 60_000
# SHA-256 of the bytes of the arrays below, not of any file: sources pack them differently.
CHECKSUMS = {
    "mnist training images": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
    "mnist training labels": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    "mnist test images": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
    "mnist test labels": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    "abalone": "4ec2fe0cdd870fd22fea8fad3ee366e4dd2dc057792186cb7b9a50c60982ed35",
}
MNIST_FILES = {
    "mnist training images": ("train-images-idx3-ubyte.gz", 16),  # name, bytes of header
    "mnist training labels": ("train-labels-idx1-ubyte.gz", 8),
    "mnist test images": ("t10k-images-idx3-ubyte.gz", 16),
    "mnist test labels": ("t10k-labels-idx1-ubyte.gz", 8),
}
ABALONE_FILE = "abalone.data"


class DataNotFoundError(FileNotFoundError):
    """A data set is neither in `GAPMIX_DATA` nor to be had from OpenML."""


class ChecksumError(ValueError):
    """A data set was read, and is not the one that figures were made with."""


class Digits(NamedTuple):
    """Images and what they show."""

    images: np.ndarray  # (n, 784) uint8
    labels: np.ndarray  # (n,) uint8


class Mnist(NamedTuple):
    """Handwritten digits, in the official order."""

    train: Digits  # 60,000
    test: Digits  # 10,000
    source: str


class Abalone(NamedTuple):
    """Abalone, in the official order: sex as a number into SEXES, seven measurements, rings."""

    values: np.ndarray  # (4177, 9)
    source: str


def load_mnist(*, download: bool = True) -> Mnist:
    """Return the digits from `GAPMIX_DATA`, else from OpenML, checked."""
    folder = _folder("mnist", [name for name, _ in MNIST_FILES.values()])
    if folder is not None:
        parts = [_read_idx(folder / name, skip) for name, skip in MNIST_FILES.values()]
        source = "GAPMIX_DATA"
    else:
        parts = _mnist_from_openml(download)
        source = "OpenML mnist_784, version 1"
    for what, part in zip(MNIST_FILES, parts, strict=True):
        verify(what, part, source)
    images, labels, test_images, test_labels = parts
    d = SIDE * SIDE
    return Mnist(
        Digits(images.reshape(-1, d), labels),
        Digits(test_images.reshape(-1, d), test_labels),
        source,
    )


def load_abalone(*, download: bool = True) -> Abalone:
    """Return Abalone from `GAPMIX_DATA`, else from OpenML, checked."""
    folder = _folder("abalone", [ABALONE_FILE])
    if folder is not None:
        lines = (folder / ABALONE_FILE).read_text().split()
        rows = [line.split(",") for line in lines]
        source = "GAPMIX_DATA"
    else:
        rows = _abalone_from_openml(download)
        source = "OpenML 183"
    values = np.array([[SEXES.index(sex), *map(float, rest)] for sex, *rest in rows])
    verify("abalone", values, source)
    return Abalone(values, source)


def verify(what: str, array: np.ndarray, source: str) -> None:
    """Raise unless the content is the known one."""
    found = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    if found != CHECKSUMS[what]:
        raise ChecksumError(
            f"The {what} read from {source} are not those the figures were made with: SHA-256 of "
            f"an array of shape {array.shape} is {found[:16]}..., not {CHECKSUMS[what][:16]}.... "
            "Remove the file or the cached download and fetch it again."
        )


def _folder(name: str, files: list[str]) -> Path | None:
    """Return the folder of a data set if `GAPMIX_DATA` has all its files."""
    root = os.environ.get("GAPMIX_DATA")
    if not root:
        return None
    folder = Path(root) / name
    return folder if all((folder / file).exists() for file in files) else None


def _not_found(name: str, files: str, why: str) -> DataNotFoundError:
    root = os.environ.get("GAPMIX_DATA")
    where = f"GAPMIX_DATA={root}" if root else "GAPMIX_DATA, which is not set,"
    return DataNotFoundError(
        f"{name} was not found: {where} must name a folder with {files}. {why}"
    )


def _read_idx(path: Path, skip: int) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=skip)


def _fetch(**which: Any) -> Any:
    with warnings.catch_warnings():  # of the attempts: the outcome is what matters
        warnings.simplefilter("ignore", UserWarning)
        return fetch_openml(n_retries=1, **which)


def _mnist_from_openml(download: bool) -> list[np.ndarray]:
    files = "mnist/train-images-idx3-ubyte.gz, its labels and the two t10k files"
    if not download:
        raise _not_found("MNIST", files, "OpenML was not asked.")
    try:
        bunch = _fetch(name="mnist_784", version=1, as_frame=False)
    except OSError as error:
        why = f"OpenML could not be reached for mnist_784 either ({error})."
        raise _not_found("MNIST", files, why) from error
    images, labels = bunch.data.astype(np.uint8), bunch.target.astype(np.uint8)
    return [images[:N_TRAIN], labels[:N_TRAIN], images[N_TRAIN:], labels[N_TRAIN:]]


def _abalone_from_openml(download: bool) -> list[list[str]]:
    files = f"abalone/{ABALONE_FILE}"
    if not download:
        raise _not_found("Abalone", files, "OpenML was not asked.")
    try:
        bunch = _fetch(data_id=183, as_frame=True)
    except OSError as error:
        why = f"OpenML could not be reached for data set 183 either ({error})."
        raise _not_found("Abalone", files, why) from error
    table = bunch.frame
    return [[str(row[0]), *(str(float(value)) for value in row[1:])] for row in table.to_numpy()]
