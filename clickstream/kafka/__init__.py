"""A real Apache Kafka on this machine, for tests and first steps: one broker in KRaft mode, on loopback only."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from clickstream.errors import ClickstreamError

if TYPE_CHECKING:
    from types import TracebackType
from typing import BinaryIO

HERE = Path(__file__).parent
VERSION = re.findall(r"<version>([^<]+)</version>", (HERE / "pom.xml").read_text(encoding="utf-8"))[0]
LOOPBACK = "127.0.0.1"
START_SECONDS = 120

INSTEAD = "Or set KAFKA_BOOTSTRAP_SERVERS to a broker of your own, such as the compose service `kafka`."

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
auto.create.topics.enable=false
default.replication.factor=1
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
"""


def fetch(jars: Path) -> None:
    """Have Maven copy Kafka's jars into the folder `jars`, unless they are there.

    Raises: ClickstreamError without Maven, or when it fails.
    """
    if jars.exists():
        return
    maven = shutil.which("mvn")
    if not maven:
        raise ClickstreamError(f"Maven (mvn) is needed to fetch Apache Kafka {VERSION}. {INSTEAD}")
    jars.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{jars.name}.", dir=jars.parent.resolve()))
    try:
        command = [maven, "--batch-mode", "--quiet", f"--file={HERE / 'pom.xml'}", "dependency:copy-dependencies"]
        done = subprocess.run(  # noqa: S603
            [*command, f"-DoutputDirectory={unfinished}"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
            raise ClickstreamError(f"Maven couldn't fetch Apache Kafka {VERSION}; it said: {said[0]} {INSTEAD}")
        try:
            unfinished.rename(jars)
        except OSError:
            if not jars.exists():  # otherwise somebody else was faster
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class Kafka:
    """A broker that runs while the `with` block does; what it holds is in `folder`, and stays there."""

    def __init__(self, folder: Path, jars: Path, *, port: int = 0, properties: str = "") -> None:
        """`port` 0 picks a free one, which is kept from one start to the next; `properties` win over ours."""
        self._folder = folder
        self._properties = _PROPERTIES + properties
        self._jars = jars
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """What clients are told as bootstrap.servers."""
        return f"{LOOPBACK}:{self.port}"

    def __enter__(self) -> Kafka:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker and wait until it answers; a folder used before is taken up again.

        Raises: ClickstreamError with the reason, where the tools to start it are missing or it doesn't come up.
        """
        self._java_path = _java_path()
        if self._answers():
            raise ClickstreamError(f"Something else listens at {self.servers} already; give another port.")
        fetch(self._jars)
        self._folder.mkdir(parents=True, exist_ok=True)
        properties = self._folder / "server.properties"
        properties.write_text(
            self._properties.format(
                host=LOOPBACK, port=self.port, controller_port=free_port(), folder=self._folder.resolve()
            ),
            encoding="utf-8",
        )
        with open(self._log, "ab") as log:
            if not (self._folder / "log" / "meta.properties").exists():
                self._java(
                    "kafka.tools.StorageTool",
                    "format",
                    "--cluster-id",
                    "Y2xpY2tzdHJlYW0tMDAwMQ",
                    "--config",
                    properties,
                    log=log,
                ).wait()
            self._process = self._java("kafka.Kafka", properties, log=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
                raise ClickstreamError(f"Kafka didn't start; the end of {self._log}:\n" + "\n".join(said))
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the broker and wait for its end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker at once, as a crash does."""
        self._end(signal.SIGKILL)

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _java(self, *command: str | Path, log: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603
            [
                self._java_path,
                "-Xmx768m",
                "-XX:+UseSerialGC",
                f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
                "-cp",
                f"{self._jars.resolve()}/*",
                *command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self.port)) == 0


def _java_path() -> str:
    path = shutil.which("java")
    if not path:
        raise ClickstreamError(f"Java 17 or newer (java) is needed to start Apache Kafka {VERSION}. {INSTEAD}")
    said = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(\d+)', said)
    if not version or int(version[1]) < 17:
        found = said.splitlines()[0] if said else "of no version"
        raise ClickstreamError(
            f"Java 17 or newer is needed to start Apache Kafka {VERSION}; `java` is {found}. {INSTEAD}"
        )
    return path
