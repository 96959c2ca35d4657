"""`python -m clickstream.kafka`: start Apache Kafka on loopback, say where, and stop it on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from threading import Event

from clickstream.errors import ClickstreamError
from clickstream.kafka import VERSION, Kafka


def main() -> int:
    """Run until a signal comes; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m clickstream.kafka", description=__doc__)
    parser.add_argument("--port", type=int, default=9092, help="0 picks a free one [%(default)s]")
    parser.add_argument("--folder", type=Path, help="keep the records here [a temporary folder, gone at the end]")
    parser.add_argument("--jars", type=Path, default=Path(".kafka", VERSION), help="Kafka itself [%(default)s]")
    options = parser.parse_args()
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="kafka-") as temporary:
        try:
            with Kafka(options.folder or Path(temporary), options.jars, port=options.port) as kafka:
                print(f"Apache Kafka {VERSION} at {kafka.servers}; Ctrl-C stops it.", flush=True)
                stop.wait()
        except ClickstreamError as error:
            print(error, file=sys.stderr)
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
