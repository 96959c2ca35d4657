"""The runner's contract, seen from outside: a process, its JSON, its exit code, the SQLite file."""
