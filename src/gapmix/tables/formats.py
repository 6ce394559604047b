"""Files that are neither text nor Parquet: each is refused with what to type instead."""

from __future__ import annotations

from pathlib import Path

from gapmix.storage.compressed import inner_suffix
from gapmix.storage.tablefiles import PARQUET
from gapmix.tables.schema import CallError
from gapmix.wording import quote

STANDARD = "<standard stream>"  # in place of a path; on the command line it is "-"
SHEETS = {".xlsx": "openpyxl", ".xls": "xlrd", ".ods": "odfpy"}  # and what pandas reads them by
PACKED = (".zip", ".bz2", ".xz", ".7z")
OTHERS = {
    ".json": "JSON",
    ".npy": "a matrix without names",
    ".feather": "an Arrow file",
}


def refuse_input(path: Path) -> None:
    """Raise an error about a table in a format that is not read."""
    suffix = path.suffix.lower()
    if suffix in SHEETS:
        raise CallError(
            f"{quote(str(path))} is a spreadsheet, which is not read. Turn a sheet of it into CSV: "
            f"python -c \"import pandas; pandas.read_excel('{path}').to_csv("
            f"'{path.with_suffix('.csv')}', index=False)\" (pip install pandas {SHEETS[suffix]})."
        )
    if suffix in PACKED:
        raise CallError(
            f"{quote(str(path))} is compressed: unpack it first. Text in .gz and .zst is read as "
            "it is."
        )
    if suffix == ".npy":
        raise CallError(
            f"{quote(str(path))} is {OTHERS[suffix]}, which `impute` and `fit` read; turn it into "
            "CSV or Parquet for this."
        )
    if suffix in OTHERS:
        raise CallError(f"{quote(str(path))} is {OTHERS[suffix]}: turn it into CSV first.")


def refuse_output(path: Path | None) -> None:
    """Raise an error about a name whose ending promises what is not written."""
    if path is None:
        return
    suffix = path.suffix.lower()
    if suffix in SHEETS:
        parquet, sheet = path.with_suffix(".parquet"), path.with_suffix(".xlsx")
        raise CallError(
            f"--output {quote(str(path))}: spreadsheets are not written. Give --output {parquet}, "
            f"then python -c \"import pandas; pandas.read_parquet('{parquet}').to_excel("
            f"'{sheet}', index=False)\" (pip install pandas openpyxl)."
        )
    if suffix in (*PACKED, *OTHERS) or (inner_suffix(path) in PARQUET and suffix not in PARQUET):
        raise CallError(
            f"--output {quote(str(path))}: files that end in "
            f"{''.join(path.suffixes[-2:]) if suffix not in (*PACKED, *OTHERS) else suffix} are "
            "not written. Tables are written as text (.csv, .tsv; compressed as .csv.gz or "
            ".csv.zst) or as Parquet (.parquet)."
        )
