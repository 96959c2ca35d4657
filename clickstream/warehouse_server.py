"""A small development server: one embedded ClickHouse (chDB) behind ClickHouse's HTTP interface, for one machine.

It lets everything that speaks to a ClickHouse server (clickhouse-connect, Superset, curl) speak to a folder instead, so
there is one way to the warehouse, whichever it is. It has one user at most, and one query runs at a time.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import re
import signal
import sys
import threading
import uuid
import zlib
from base64 import b64decode
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from clickstream.errors import ClickstreamError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LARGEST_BODY_BYTES = 1 << 30
"""A request may carry this much, before and after it is decompressed."""

_INSERT = re.compile(
    rb"\s*(INSERT\s+INTO\s+(?:(?!\bSELECT\b|\bVALUES\b).)*?)\s+FORMAT\s+(\w+)(?:\s*\n| |$)", re.I | re.S
)
_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.I)
_CODE = re.compile(r"Code: (\d+)\.")
_NAME = re.compile(r"\w+")
_STATUS = {60: HTTPStatus.NOT_FOUND, 81: HTTPStatus.NOT_FOUND, 516: HTTPStatus.FORBIDDEN}

# Parameters of the HTTP interface itself; all others are settings.
_NOT_SETTINGS = {
    "query", "database", "default_format", "session_id", "session_timeout", "session_check", "query_id", "quota_key",
    "user", "password", "compress", "decompress", "wait_end_of_query", "buffer_size", "client_protocol_version", "role",
    "enable_http_compression", "send_progress_in_http_headers", "http_headers_progress_interval_ms", "stacktrace",
}  # fmt: skip


class QueryError(Exception):
    """The engine refused a query; `code` is ClickHouse's own number for why."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        found = _CODE.search(sentence)
        self.code = int(found[1]) if found else 1002


class BadRequestError(Exception):
    """A request that is not understood; nothing was done."""


class Login(NamedTuple):
    """Who may ask; nobody in particular where the password is empty."""

    user: str
    password: str

    def lets_in(self, user: str, password: str) -> bool:
        """Tell whether these are the user and the password."""
        given, right = f"{user}:{password}", f"{self.user}:{self.password}"
        return not self.password or hmac.compare_digest(given.encode(), right.encode())


class Answer(NamedTuple):
    """What a query gave: its result, the result's format (empty if there is none), and the rows that went each way."""

    body: bytes
    format: str
    rows_read: int
    rows_written: int


@dataclass(frozen=True, slots=True)
class Request:
    """One query with all that came with it. `text` may have the rows of an insert behind it."""

    text: bytes
    database: str
    default_format: str
    parameters: Mapping[str, str]
    settings: Mapping[str, str]


class Engine:
    """One chDB session over a folder. Queries take turns."""

    def __init__(self, folder: str) -> None:
        """Open the folder, and make it if it is missing.

        Raises: ClickstreamError when it can't be opened, as when another process has it open.
        """
        from chdb.session import Session

        try:
            os.makedirs(folder, exist_ok=True)
            self._lock = open(os.path.join(folder, "served"), "w")  # noqa: SIM115 - held until `close`
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClickstreamError(
                f"The warehouse in {folder} is open already; one process at a time can have it."
            ) from None
        except OSError as error:
            raise ClickstreamError(f"The warehouse in {folder} can't be opened: {error.strerror}.") from None
        try:
            self._session: Any = Session(folder)
        except Exception as error:  # noqa: BLE001 - whatever the engine raises
            raise ClickstreamError(f"The warehouse in {folder} can't be opened: {_sentence(error)}") from None
        self._turn = threading.Lock()
        self._database = ""
        self._settings: dict[str, str] = {}
        self.rows_taken_in = 0

    def run(self, request: Request) -> Answer:
        """Run one query to its end.

        Raises: QueryError.
        """
        with self._turn:
            try:
                self._prepare(request)
                answer = self._run(request)
            except Exception as error:  # noqa: BLE001 - whatever the engine raises
                raise QueryError(_sentence(error)) from None
            self.rows_taken_in += answer.rows_written
            return answer

    def _prepare(self, request: Request) -> None:
        """Bring the session to the request's database and settings; there is one session for all callers."""
        if request.database != self._database:
            self._session.query(f"USE `{request.database}`")
            self._database = request.database
        for name in [name for name in self._settings if name not in request.settings]:
            self._session.query(f"SET {name} = DEFAULT")
            del self._settings[name]
        for name, value in request.settings.items():
            if self._settings.get(name) != value:
                self._session.query(f"SET {name} = {_quoted(value)}")
                self._settings[name] = value

    def _run(self, request: Request) -> Answer:
        insert = _INSERT.match(request.text)
        if insert and (rows := request.text[insert.end() :]).strip():
            with self._session.send_insert(insert[1].decode(), insert[2].decode()) as stream:
                stream.append(rows)
                return Answer(b"", "", 0, stream.finish().rows_written)
        text = request.text.decode()
        named = _FORMAT.search(text)
        wanted = named[1] if named else request.default_format
        result = self._session.query(text, wanted, params=dict(request.parameters) or None)
        body = result.bytes()
        # The engine's own name of `SET`, `CREATE` and the like is a result of no bytes at all.
        return Answer(body, wanted if body or result.rows_read() else "", result.rows_read(), result.rows_written())

    def close(self) -> None:
        """Close the folder, after the query that is running."""
        with self._turn:
            self._session.close()
            self._lock.close()


class Handler(BaseHTTPRequestHandler):
    """Turns one HTTP request into one query."""

    protocol_version = "HTTP/1.1"
    server_version = "clickstream-warehouse"
    wbufsize = -1  # an answer leaves in one piece: in two, the second waits for the receiver's delayed acknowledgement
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """Answer `/ping`, or a query that changes nothing or everything: there is no difference here."""
        self._answer_request()

    def do_POST(self) -> None:
        """Answer a query, the rows of an insert behind it."""
        self._answer_request()

    def _answer_request(self) -> None:
        query_id = str(uuid.uuid4())
        try:
            body = self._body()
            self._refuse_web_pages()
            if urlsplit(self.path).path == "/ping":
                return self._answer(HTTPStatus.OK, b"Ok.\n")
            self._require_login()
            request = _request(self.path, body, self.headers.get("X-ClickHouse-Database", ""))
            answer = self.server.engine.run(request)
        except BadRequestError as error:
            self.close_connection = True
            return self._answer(HTTPStatus.BAD_REQUEST, f"{error}\n".encode())
        except QueryError as error:
            status = _STATUS.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR)
            return self._answer(status, f"{error}\n".encode(), {"X-ClickHouse-Exception-Code": str(error.code)})
        summary = {"read_rows": str(answer.rows_read), "written_rows": str(answer.rows_written)}
        headers = {"X-ClickHouse-Summary": json.dumps(summary), "X-ClickHouse-Query-Id": query_id}
        if answer.format:
            headers["X-ClickHouse-Format"] = answer.format
        return self._answer(HTTPStatus.OK, answer.body, headers)

    def _refuse_web_pages(self) -> None:
        """Raise BadRequestError for what a browser sends in the name of a page: it must not reach what needs no login.

        A page that has its own name lead to this address is known by that name.
        """
        host = ""
        with suppress(ValueError):  # what is no host is no address of ours
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        foreign = self.server.is_local and not _is_loopback(host)
        if foreign or self.headers.get("Origin") or self.headers.get("Sec-Fetch-Site", "none") != "none":
            raise BadRequestError("Requests from web pages are refused.")

    def _require_login(self) -> None:
        """Raise QueryError unless the user and the password are right, in whichever way of ClickHouse's they come."""
        asked = dict(parse_qsl(urlsplit(self.path).query))
        user = asked.get("user") or self.headers.get("X-ClickHouse-User") or "default"
        password = asked.get("password") or self.headers.get("X-ClickHouse-Key") or ""
        kind, _, basic = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "basic":
            with suppress(ValueError):
                user, _, password = b64decode(basic).decode().partition(":")
        if not self.server.login.lets_in(user, password):
            raise QueryError(f"Code: 516. DB::Exception: {user}: Authentication failed: wrong user or password.")

    def _answer(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        encoding = "gzip" if len(body) > 1400 and "gzip" in self.headers.get("Accept-Encoding", "") else ""
        if encoding:
            packer = zlib.compressobj(1, zlib.DEFLATED, 31)
            body = packer.compress(body) + packer.flush()
            self.send_header("Content-Encoding", encoding)
        for name, value in {"X-ClickHouse-Timezone": "UTC", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        """Return the whole body, decompressed.

        Raises: BadRequestError.
        """
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            pieces = self._chunks()
        else:
            length = self._content_length()
            if length > LARGEST_BODY_BYTES:
                raise BadRequestError(
                    f"A request of {length} bytes is more than {LARGEST_BODY_BYTES}; send it in portions."
                )
            pieces = iter([self.rfile.read(length)])
        return decoded(b"".join(_bounded(pieces)), self.headers.get("Content-Encoding", ""))

    def _content_length(self) -> int:
        text = self.headers.get("Content-Length") or "0"
        if not (text.isascii() and text.isdigit()):
            raise BadRequestError(f"{text!r} is not the length of a body.")
        return int(text)

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = self.rfile.readline(128).split(b";")[0].strip()
            try:
                length = int(size, 16)
            except ValueError:
                raise BadRequestError(f"{size!r} is not the length of a chunk.") from None
            piece = self.rfile.read(length)
            if len(piece) < length:
                raise BadRequestError("The request ended in the middle of a chunk.")
            self.rfile.readline()
            if not length:
                return
            yield piece

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Say nothing of each request."""


class Server(ThreadingHTTPServer):
    """The server: an engine, and a thread for each connection."""

    daemon_threads = True

    def __init__(self, engine: Engine, host: str, port: int, login: Login) -> None:
        super().__init__((host, port), Handler)
        self.engine = engine
        self.login = login
        self.is_local = _is_loopback(host)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"


def serve(
    folder: str, *, host: str, port: int, anywhere: bool, login: Login, ready: Callable[[str], None]
) -> dict[str, Any]:
    """Serve the warehouse in `folder` until SIGTERM or Ctrl-C; `ready` is told the address.

    `port` 0 takes a free one. Returns how many rows it took in.

    Raises: UsageError when `host` is not a loopback address and nobody said `anywhere`; ClickstreamError.
    """
    if not (anywhere or _is_loopback(host)):
        raise UsageError(
            f"{host} can be reached from other machines, and this server is made for one. Use 127.0.0.1, or say "
            "--anywhere if that is what you want."
        )
    with closing(Engine(folder)) as engine:
        try:
            server = Server(engine, host, port, login)
        except OSError as error:
            raise ClickstreamError(f"{host}:{port} can't be listened on: {error.strerror}.") from None
        with server, _until_signalled(server):
            ready(server.url)
            server.serve_forever(poll_interval=0.1)
        return {"verb": "warehouse", "url": server.url, "rows_taken_in": engine.rows_taken_in}


@contextmanager
def _until_signalled(server: Server) -> Iterator[None]:
    def stop(*_: object) -> None:
        threading.Thread(target=server.shutdown).start()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def _request(path: str, body: bytes, database: str) -> Request:
    pairs = dict(parse_qsl(urlsplit(path).query, keep_blank_values=True))
    text = b"\n".join(part for part in (pairs.get("query", "").encode(), body) if part)
    if not text.strip():
        raise BadRequestError("There is no query: send it as the body, or as the parameter `query`.")
    settings = {
        name: value for name, value in pairs.items() if name not in _NOT_SETTINGS and not name.startswith("param_")
    }
    for name in settings:
        if not _NAME.fullmatch(name):
            raise BadRequestError(f"{name!r} is not the name of a setting.")
    database = pairs.get("database") or database or "default"
    if "`" in database or "\\" in database:
        raise BadRequestError(f"{database!r} is not the name of a database.")
    return Request(
        text,
        database,
        pairs.get("default_format", "TabSeparated"),
        {name.removeprefix("param_"): value for name, value in pairs.items() if name.startswith("param_")},
        settings,
    )


def decoded(body: bytes, encoding: str) -> bytes:
    """Return what a compressed body holds, all of it: clients send one compressed frame a block, one behind the other.

    Raises: BadRequestError when it is cut, damaged, too large, or compressed in a way that isn't known.
    """
    if not encoding or not body:
        return body
    begin, broken = _decompressors(encoding)
    pieces: list[bytes] = []
    size, rest = 0, body
    while rest:
        frame = begin()
        try:
            pieces.append(frame.decompress(rest))
        except broken as error:
            raise BadRequestError(f"The {encoding} body is damaged: {error}.") from None
        if not frame.eof:
            raise BadRequestError(f"The {encoding} body is cut; nothing was taken in.")
        size += len(pieces[-1])
        if size > LARGEST_BODY_BYTES:
            raise BadRequestError(f"The body holds more than {LARGEST_BODY_BYTES} bytes; send it in portions.")
        rest = frame.unused_data or b""
    return b"".join(pieces)


def _decompressors(encoding: str) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    if encoding == "lz4":
        from lz4.frame import LZ4FrameDecompressor

        return LZ4FrameDecompressor, (RuntimeError,)
    if encoding == "zstd":
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        return zstd.ZstdDecompressor, (zstd.ZstdError,)
    if encoding in ("gzip", "deflate"):
        return lambda: zlib.decompressobj(47), (zlib.error,)
    raise BadRequestError(f"Bodies compressed with {encoding} aren't understood; use lz4, zstd, gzip or deflate.")


def _bounded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > LARGEST_BODY_BYTES:
            raise BadRequestError(
                f"A request of more than {LARGEST_BODY_BYTES} bytes is too large; send it in portions."
            )
        yield piece


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _sentence(error: Exception) -> str:
    """Return the engine's message, from ClickHouse's `Code:` on where there is one."""
    text = str(error)
    return text[text.index("Code: ") :] if "Code: " in text else f"{text.rstrip('.')}."
