#!/usr/bin/env python3
"""The runner: `python3 runner.py <command> [arguments]`, one JSON object on standard output, an exit code.

The commands, answers and codes are in docs/runner.md.
"""

import sys

from backfill_core.contract import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
