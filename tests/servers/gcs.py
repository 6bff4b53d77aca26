"""A private server that speaks the languages of Google's buckets: fake-gcs-server, with a translator before it.

fake-gcs-server knows conditional puts, lists and copies in Google's JSON API only; obstore asks for them in Google's
XML API. So these are translated, request by request (`_Translator`), and everything else is handed on as it is: which
of two creates wins is decided by the server, not here.

`tools/setup.sh` builds it with Go into ``.venv/gcs-server``; see `tests.servers.kafka` for where else.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from tests.servers.kafka import JARS, SECONDS_AT_MOST, jars
from tests.servers.ports import free_ports

TOKEN = "not-a-real-token"
"""With a token no client asks the machine it runs on for one."""
_PROGRAM = JARS / "gcs-server" / "fake-gcs-server"
_NOT_HANDED_ON = {"connection", "expect", "host", "keep-alive", "transfer-encoding", "content-length", "authorization"}


def why_not() -> str | None:
    """What is missing for tests on fake-gcs-server; None where they can run."""
    if importlib.util.find_spec("obstore") is None:
        return "no obstore: pip install 'rekindle[gcs]'"
    if not os.access(_PROGRAM, os.X_OK):
        return f"no fake-gcs-server in {JARS}: `make setup` builds it with Go, where there is one"
    return None


def why_no_connector() -> str | None:
    """What is missing for tests of Spark on Google; None where they can run."""
    return None if jars("spark-gcs") else f"no connector to Google for Spark in {JARS}: `make setup` tries to fetch it"


class GoogleServer:
    """One server; each test takes a bucket of its own. It may be stopped; what it had is then lost."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-gcs-"))
        self.port, self._inner = free_ports(2)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._translator: ThreadingHTTPServer | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to know, as they look for it."""
        return {"GOOGLE_BASE_URL": f"http://127.0.0.1:{self.port}", "GOOGLE_BEARER_TOKEN": TOKEN}

    @property
    def json_api(self) -> str:
        """Where the server is for who speaks Google's JSON API."""
        return f"http://127.0.0.1:{self._inner}"

    @property
    def hadoop_settings(self) -> dict[str, str]:
        """What leads Google's connector of Hadoop there, with no one asked for a token."""
        package = "com.google.cloud.hadoop.fs.gcs"
        # Hadoop's own defaults for its own connector, which this one cannot read.
        sizes = {"rewrite.max.chunk.size": 512, "block.size": 64, "outputstream.buffer.size": 8}
        sizes |= {"inputstream.inplace.seek.limit": 8, "inputstream.min.range.request.size": 2}
        return {
            "fs.gs.impl": f"{package}.GoogleHadoopFileSystem",
            "fs.AbstractFileSystem.gs.impl": f"{package}.GoogleHadoopFS",
            "fs.gs.storage.root.url": self.json_api,
            "fs.gs.project.id": "tests",
            "fs.gs.auth.type": "UNAUTHENTICATED",
            "fs.gs.auth.null.enable": "true",
            "fs.gs.auth.service.account.enable": "false",
            "google.cloud.auth.null.enable": "true",
            "google.cloud.auth.service.account.enable": "false",
            **{f"fs.gs.{name}": str(megabytes << 20) for name, megabytes in sizes.items()},
        }

    def start(self) -> None:
        """Start both and wait until they answer."""
        command = [str(_PROGRAM), "-scheme", "http", "-host", "127.0.0.1", "-port", str(self._inner)]
        command += ["-backend", "memory", "-public-host", f"127.0.0.1:{self._inner}"]
        command += ["-external-url", self.json_api]  # where uploads in parts go on
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        handler = type("Handler", (_Translator,), {"inner": self._inner, "uploads": {}})
        self._translator = _Server(("127.0.0.1", self.port), handler)
        threading.Thread(target=self._translator.serve_forever, daemon=True).start()
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return self._ask("GET", "/storage/v1/b?project=tests").status == 200
        except OSError:
            return False

    def _ask(self, method: str, target: str, body: bytes | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._inner, timeout=SECONDS_AT_MOST)
        connection.request(method, target, body=body, headers={"Content-Type": "application/json"})
        return connection.getresponse()

    def make_bucket(self) -> str:
        """A bucket that nobody else has."""
        name = f"bucket-{os.getpid()}-{next(self._numbers)}"
        assert self._ask("POST", "/storage/v1/b?project=tests", json.dumps({"name": name}).encode()).status == 200
        return name

    def put(self, bucket: str, name: str, data: bytes = b"") -> None:
        """An object, made by a client that is none of ours."""
        target = f"/upload/storage/v1/b/{bucket}/o?{urlencode({'uploadType': 'media', 'name': name})}"
        assert self._ask("POST", target, data).status == 200

    def names(self, bucket: str) -> list[str]:
        """The names of all objects, as the server itself has them; up to a thousand."""
        answer = self._ask("GET", f"/storage/v1/b/{bucket}/o")
        return [one["name"] for one in json.loads(answer.read()).get("items", ())]

    def stop(self) -> None:
        """Stop both."""
        if self._translator is not None:
            self._translator.shutdown()
            self._translator.server_close()
            self._translator = None
        if self._process is not None:
            self._process.kill()
            self._process.wait(SECONDS_AT_MOST)

    def remove(self) -> None:
        """Stop it; with it goes what it has."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """What the server has written."""
        return (self._folder / "server.log").read_text(errors="replace")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone."""


class _Translator(BaseHTTPRequestHandler):
    """One connection of a client; to the server each request has its own."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    inner: ClassVar[int]
    uploads: ClassVar[dict[str, dict[int, bytes]]]

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = (unquote(part) for part in parts.path.lstrip("/").partition("/"))
        query = {name: found[0] for name, found in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if parts.path.startswith("/storage/v1/"):
            self._answer_as_asked(self.path, body)
        elif self.command == "GET" and not key:
            self._list(bucket, query)
        elif self.command == "PUT" and "partNumber" in query:
            self.uploads[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, {"ETag": f'"{query["partNumber"]}"'})
        elif self.command == "PUT" and "x-goog-copy-source" in self.headers:
            self._copy(bucket, key, self.headers["x-goog-copy-source"])
        elif self.command == "PUT":
            self._put(bucket, key, body)
        elif self.command == "POST" and "uploads" in query:
            upload = os.urandom(8).hex()
            self.uploads[upload] = {}
            self._xml(f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>")
        elif self.command == "POST":
            pieces = self.uploads.pop(query["uploadId"])
            self._put(bucket, key, b"".join(pieces[number] for number in sorted(pieces)), whole=True)
        elif self.command == "DELETE" and "uploadId" in query:
            self.uploads.pop(query["uploadId"], None)
            self._answer(204)
        else:
            self._hand_on(bucket, key, body)

    def _put(self, bucket: str, key: str, body: bytes, *, whole: bool = False) -> None:
        query = {"uploadType": "media", "name": key}
        if (generation := self.headers.get("x-goog-if-generation-match")) is not None:
            query["ifGenerationMatch"] = generation
        status, text = self._ask("POST", f"/upload/storage/v1/b/{quote(bucket)}/o?{urlencode(query)}", body)
        if status == 200:
            found = json.loads(text)
            etag = f'"{found["etag"]}"'
            if whole:
                self._xml(f"<CompleteMultipartUploadResult><ETag>{escape(etag)}</ETag></CompleteMultipartUploadResult>")
            else:
                self._answer(200, {"ETag": etag, "x-goog-generation": found["generation"]})
        else:
            self._refuse(status)

    def _copy(self, bucket: str, key: str, source: str) -> None:
        of, _, named = unquote(source).lstrip("/").partition("/")
        target = f"/storage/v1/b/{quote(of)}/o/{quote(named, safe='')}"
        target += f"/rewriteTo/b/{quote(bucket)}/o/{quote(key, safe='')}"
        status, _ = self._ask("POST", target, b"")
        if status == 404:
            self._miss(of)
        else:
            self._xml("<CopyObjectResult/>") if status == 200 else self._refuse(status)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        asked = {name: query[name] for name in ("prefix", "delimiter") if name in query}
        asked["maxResults"] = query.get("max-keys", "1000")
        after = query.get("start-after", "")
        if after:
            asked["startOffset"] = after  # the first of the list; after it in the XML API
        if "continuation-token" in query:
            asked["pageToken"] = query["continuation-token"]
        status, text = self._ask("GET", f"/storage/v1/b/{quote(bucket)}/o?{urlencode(asked)}")
        if status != 200:
            self._refuse(status)
            return
        page = json.loads(text)
        xml = [f"<Name>{bucket}</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated>"]
        xml += [
            f"<Contents><Key>{escape(one['name'])}</Key><LastModified>{one['updated']}</LastModified>"
            f"<ETag>{one['etag']}</ETag><Size>{one['size']}</Size></Contents>"
            for one in page.get("items", ())
            if one["name"] > after
        ]
        xml += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in page.get("prefixes", ())]
        if token := page.get("nextPageToken"):
            xml.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
        self._xml(f"<ListBucketResult>{''.join(xml)}</ListBucketResult>")

    def _hand_on(self, bucket: str, key: str, body: bytes) -> None:
        target = f"/{quote(bucket)}/{quote(key)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.inner, timeout=SECONDS_AT_MOST)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_HANDED_ON}
        connection.request(self.command, target, body=body or None, headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in _NOT_HANDED_ON}
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        connection.close()
        if self.headers.get("If-Match") not in (None, answer.getheader("ETag")):
            self._refuse(412)
            return
        if answer.status == 404 and self.command == "GET":
            self._miss(bucket)
            return
        self._answer(answer.status, {**kept, "Content-Length": length or "0"}, data)

    def _ask(self, method: str, target: str, body: bytes | None = None) -> tuple[int, bytes]:
        meta = {name: value for name, value in self.headers.items() if name.lower().startswith("x-goog-meta-")}
        connection = http.client.HTTPConnection("127.0.0.1", self.inner, timeout=SECONDS_AT_MOST)
        connection.request(method, target, body=body, headers={"Content-Type": "application/octet-stream", **meta})
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def _answer_as_asked(self, target: str, body: bytes) -> None:
        """Who speaks the JSON API needs no translator."""
        status, data = self._ask(self.command, target, body)
        self._answer(status, {"Content-Type": "application/json", "Content-Length": str(len(data))}, data)

    def _miss(self, bucket: str) -> None:
        there = self._ask("GET", f"/storage/v1/b/{quote(bucket)}")[0] == 200
        self._xml(f"<Error><Code>{'NoSuchKey' if there else 'NoSuchBucket'}</Code></Error>", 404)

    def _refuse(self, status: int) -> None:
        code = {404: "NoSuchBucket", 412: "PreconditionFailed"}.get(status, "Refused")
        self._xml(f"<Error><Code>{code}</Code></Error>", status)

    def _xml(self, text: str, status: int = 200) -> None:
        self._answer(status, {"Content-Type": "application/xml"}, text.encode())

    def _answer(self, status: int, headers: dict[str, str] | None = None, data: bytes = b"") -> None:
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""
