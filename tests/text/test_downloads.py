"""Downloads against a server on this machine: resumed, verified, never half a file."""

from __future__ import annotations

import errno
import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from budgerigar.errors import UserError
from budgerigar.text import downloads
from budgerigar.text.downloads import download

DATA = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves DATA; the attributes make it misbehave."""

    cut_after: int | None = None  # bytes after which each connection breaks off
    ranges = True
    etag = ""
    data = DATA
    asked: list[dict[str, str]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.asked.append(dict(self.headers))
        if self.path != "/file":
            self.send_error(404)
            return
        wanted, start = self.headers.get("Range"), 0
        same = self.headers.get("If-Range", server.etag) == server.etag
        if wanted and server.ranges and same:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(server.data):
                self.send_error(416)
                return
            self.send_response(206)
            total = len(server.data)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        else:
            self.send_response(200)
        if server.etag:
            self.send_header("ETag", server.etag)
        rest = server.data[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: server.cut_after])
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.asked = []
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def url(server: Server, path: str = "/file") -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_whole_file(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.bin"
    assert download([url(server)], target, SHA256) == SHA256
    assert target.read_bytes() == DATA
    assert left(target.parent) == ["file.bin"]


def test_a_broken_connection_is_resumed_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.cut_after = 100_000
    download([url(server)], tmp_path / "f", SHA256)
    assert (tmp_path / "f").read_bytes() == DATA
    assert [asked.get("Range") for asked in server.asked] == [
        None,
        "bytes=100000-",
        "bytes=200000-",
    ]


def test_a_later_try_goes_on(server: Server, tmp_path: Path) -> None:
    server.cut_after = 10_000
    with pytest.raises(UserError, match="trying again goes on"):
        download([url(server)], tmp_path / "f", SHA256)
    assert left(tmp_path) == ["f.part"]
    have = (tmp_path / "f.part").stat().st_size
    assert have == 30_000
    server.cut_after = None
    download([url(server)], tmp_path / "f", SHA256)
    assert server.asked[-1]["Range"] == "bytes=30000-"
    assert (tmp_path / "f").read_bytes() == DATA
    assert left(tmp_path) == ["f"]


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(b"old" * 10)
    server.ranges = False
    download([url(server)], tmp_path / "f", SHA256)
    assert (tmp_path / "f").read_bytes() == DATA


def test_a_file_that_changed_meanwhile_is_not_mixed(server: Server, tmp_path: Path) -> None:
    server.etag, server.cut_after = '"one"', 10_000
    with pytest.raises(UserError):
        download([url(server)], tmp_path / "f")
    server.etag, server.cut_after, server.data = '"two"', None, DATA[::-1]
    download([url(server)], tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA[::-1]
    assert left(tmp_path) == ["f"]


def test_without_hash_and_tag_it_starts_over(server: Server, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(b"of another file")
    download([url(server)], tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


@pytest.mark.parametrize("part", [DATA, DATA + b"too long"])
def test_a_part_as_long_as_the_file(server: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "f.part").write_bytes(part)
    download([url(server)], tmp_path / "f", SHA256)
    assert (tmp_path / "f").read_bytes() == DATA


def test_a_tampered_file_is_not_kept(server: Server, tmp_path: Path) -> None:
    server.data = DATA[:-1] + b"!"
    with pytest.raises(UserError, match="expected " + SHA256):
        download([url(server)], tmp_path / "f", SHA256)
    assert left(tmp_path) == []


def test_not_found_and_another_address(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="404"):
        download([url(server, "/gone")], tmp_path / "f", SHA256)
    assert left(tmp_path) == []
    download([url(server, "/gone"), url(server)], tmp_path / "f", SHA256)
    assert (tmp_path / "f").read_bytes() == DATA


def test_refused_connection(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UserError, match="Is there a network"):
        download([f"http://127.0.0.1:{port}/file"], tmp_path / "f", SHA256)
    assert left(tmp_path) == []


def test_full_disk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(answer: Any, part: Path, *rest: Any) -> None:
        part.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(downloads, "_copy", full)
    with pytest.raises(UserError, match="is full"):
        download([url(server)], tmp_path / "f", SHA256)
    assert left(tmp_path) == []


def test_a_place_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match="BUDGIE_CACHE"):
        download([url(server)], tmp_path / "file" / "f", SHA256)
