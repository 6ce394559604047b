"""`gapmix` on the command line: runs a command, shows its result, and turns errors into messages.

Exit codes: 0 done, 1 bad data, 2 bad call, 3 not converged with --strict; 70 a fault of gapmix
itself, 130 given up by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from gapmix.tables.dialect import TableError
from gapmix.tables.schema import CallError

DONE, BAD_DATA, BAD_CALL, NOT_CONVERGED, FAULT, GIVEN_UP = 0, 1, 2, 3, 70, 130
EXTRAS = ("cyclopts", "polars", "pyarrow", "rich")
commands: Any
results: Any
screen: Any
cyclopts: Any
MISSING_EXTRA = next((name for name in EXTRAS if find_spec(name) is None), "")
try:
    import cyclopts

    from gapmix.cli import commands, results, screen
except ModuleNotFoundError as error:
    if error.name not in EXTRAS:
        raise
    MISSING_EXTRA = error.name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    if MISSING_EXTRA:
        sys.stderr.write(
            f"The command line needs {MISSING_EXTRA}, which is not installed: "
            'pip install "gapmix[cli]"\n'
        )
        return BAD_CALL
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(tokens)
    except cyclopts.CycloptsError as error:
        screen.show_error(f"{str(error).strip()} `gapmix --help` lists commands and options.")
        return BAD_CALL
    except CallError as error:
        screen.show_error(str(error))
        return BAD_CALL
    except (TableError, ValueError) as error:
        screen.show_error(str(error))
        return BAD_DATA
    except MemoryError:
        screen.show_error("There is not enough memory. Use fewer columns or components.")
        return BAD_DATA
    except BrokenPipeError:  # the reader of standard output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        screen.show_error("Given up; nothing was written.")
        return GIVEN_UP
    except OSError as error:
        screen.show_error(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        return BAD_DATA
    except Exception as error:
        if os.environ.get("GAPMIX_TRACEBACK"):
            raise
        screen.show_error(
            f"This is a fault of gapmix: {type(error).__name__}: {error}. Please report it, with "
            "what GAPMIX_TRACEBACK=1 shows."
        )
        return FAULT


def _run(tokens: list[str]) -> int:
    outcome = commands.app(tokens, exit_on_error=False, print_error=False)
    if not isinstance(outcome, commands.Outcome):  # help or version was shown
        return DONE
    options = outcome.options
    results.print_result(outcome.kind, outcome.result, as_json=options.json, quiet=options.quiet)
    sys.stdout.flush()
    return DONE if outcome.converged else NOT_CONVERGED
