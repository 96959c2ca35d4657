#!/usr/bin/env python3
"""The runner: `python3 runner.py <command> [arguments]`, one JSON object on standard output, an exit code.

The commands, answers and codes are in docs/runner.md.
"""

import gc
import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036  old ones are to say so, not to stumble over what they don't know
    needs = "runner.py needs Python 3.10 or newer, and this is %s (%s)" % (sys.version.split()[0], sys.executable)  # noqa: UP031
    import json

    print(json.dumps({"error": needs}))
    sys.exit(needs)

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # Python leaves it out if it is told to be safe

if __name__ == "__main__":
    gc.disable()
    try:
        from backfill_core.contract import main
    except KeyboardInterrupt:  # from here on signals are heard; see main
        print('{"error": "interrupted before anything was done"}')
        sys.exit(130)
    # All is printed and closed by then. Python's own way out would take a tenth of the time of a short command.
    os._exit(main(sys.argv[1:]))
