"""`gapmix` on the command line: runs a command, shows its result, and turns errors into messages.

Exit codes: 0 done, 1 bad data, 2 bad call, 3 not converged with --strict; 70 a fault of gapmix
itself, 74 a file that could not be read or written, as on a full disk, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

DONE, BAD_DATA, BAD_CALL, NOT_CONVERGED, FAULT, NO_FILE, GIVEN_UP = 0, 1, 2, 3, 70, 74, 130
EXTRAS = ("cyclopts", "polars", "pyarrow", "rich")
NOTHING_YET = "Stopped; nothing was written."
commands: Any
results: Any
screen: Any
cyclopts: Any
MISSING_EXTRA = next((name for name in EXTRAS if find_spec(name) is None), "")
try:
    import cyclopts

    from gapmix.cli import commands, results, screen
    from gapmix.tables.dialect import TableError
    from gapmix.tables.formats import STANDARD
    from gapmix.tables.schema import CallError
except ModuleNotFoundError as error:
    if error.name not in EXTRAS:
        raise
    MISSING_EXTRA = error.name
except KeyboardInterrupt:
    sys.stderr.write(f"Error: {NOTHING_YET}\n")
    raise SystemExit(GIVEN_UP) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    if MISSING_EXTRA:
        sys.stderr.write(
            f"The command line needs {MISSING_EXTRA}, which is not installed. "
            'Run: pip install "gapmix[cli]"\n'
        )
        return BAD_CALL
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _open_streams()
        return _run(tokens)
    except cyclopts.CycloptsError as error:
        screen.show_error(f"{str(error).strip()} `gapmix --help` lists commands and options.")
        return BAD_CALL
    except CallError as error:
        screen.show_error(str(error), error)
        return BAD_CALL
    except BrokenPipeError:  # the reader of standard output has left
        _leave_stdout()
        return DONE
    except OSError as error:
        reason = "Standard output is closed" if error.errno == errno.EBADF else error.strerror
        screen.show_error(f"{reason or error}: {error.filename or ''}".rstrip(": ") + ".", error)
        _leave_stdout()
        return NO_FILE
    except (TableError, ValueError) as error:
        screen.show_error(str(error), error)
        return BAD_DATA
    except MemoryError as error:
        screen.show_error("There is not enough memory. Use fewer columns or components.", error)
        return BAD_DATA
    except KeyboardInterrupt as error:
        screen.show_error("Stopped." if hasattr(error, "__notes__") else NOTHING_YET, error)
        return GIVEN_UP
    except Exception as error:
        if os.environ.get("GAPMIX_TRACEBACK"):
            raise
        screen.show_error(
            f"This is a bug in gapmix: {type(error).__name__}: {error}. Please report it. Set "
            "GAPMIX_TRACEBACK=1, run the command again, and include what it prints.",
            error,
        )
        return FAULT


def _run(tokens: list[str]) -> int:
    # An option parser would take a lone hyphen for an option without a name.
    texts = ("--missing-values", "--delimiter", "--quote")
    output = {"--output=-": f"--output={STANDARD}", "-o=-": f"-o={STANDARD}"}
    tokens = [
        STANDARD if token == "-" and before not in texts else output.get(token, token)
        for before, token in zip(["", *tokens], tokens, strict=False)
    ]
    outcome = commands.app(tokens, exit_on_error=False, print_error=False)
    if not isinstance(outcome, commands.Outcome):  # help or version was shown
        return DONE
    options = outcome.options
    results.print_result(outcome.kind, outcome.result, options)
    sys.stdout.flush()
    return DONE if outcome.converged else NOT_CONVERGED


def _open_streams() -> None:
    """Put something in the place of streams that were closed, or the next file would take it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # what is written to standard output is missed, and said so
            file = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            setattr(sys, name, os.fdopen(file, "w"))


def _leave_stdout() -> None:
    """Let what is still to be written to standard output go nowhere: nobody takes it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream in memory, as in tests
        return
