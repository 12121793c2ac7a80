#!/usr/bin/env python3
"""A file server with faults, for the tests of remote shards: python3 fault_server.py FOLDER [options]

It listens at a free port of 127.0.0.1, prints that port, and ends when its stdin does. The first part of a
path names the fault, the rest a file below FOLDER: /cut/set/x.idx is FOLDER/set/x.idx, whose shards then
are /cut/set/x-00000.shard. Faults strike shards (all names but *.idx) alone, so that an index opens; a name
with "all-" in front strikes every file. What happens depends on the number of requests for the same bytes, never on time.
"""

import argparse
import base64
import datetime
import hashlib
import hmac
import os
import re
import ssl
import sys
import threading
import time
import urllib.parse
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USER, PASSWORD, TOKEN = "reader", "s3cret:with colon", "bearer-0123"
S3_KEY, S3_SECRET, S3_SESSION, S3_REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCY", "session==/1", "eu-test-1"


class State:
    """What the threads of one server share."""

    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.seen = {}
        self.requests = 0
        self.connections = 0
        self.at_gate = set()
        self.gate = threading.Event()

    def count(self, what):
        """How often this was asked for before."""
        with self.lock:
            self.seen[what] = self.seen.get(what, 0) + 1
            return self.seen[what] - 1

    def log(self, line):
        if self.options.log:
            with self.lock, open(self.options.log, "a", encoding="utf-8") as file:
                file.write(line + "\n")


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def s3_complaint(handler):
    """What is wrong with a request's signature (Signature Version 4), or None."""
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^,]+), *SignedHeaders=([^,]+), *Signature=([0-9a-f]{64})",
                         handler.headers.get("Authorization", ""))
    if not match:
        return "no signature"
    credential, signed, signature = match.groups()
    key, day, region, service, ending = credential.split("/")
    if (key, region, service, ending) != (S3_KEY, S3_REGION, "s3", "aws4_request"):
        return "another key or region: " + credential
    stamp = handler.headers.get("x-amz-date", "")
    now = datetime.datetime.now(datetime.timezone.utc)
    if abs((now - datetime.datetime.strptime(stamp + "+0000", "%Y%m%dT%H%M%SZ%z")).total_seconds()) > 900:
        return "signed at another time"
    names = signed.split(";")
    needed = {"host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"}
    if not needed <= set(names) or names != sorted(names):
        return "these are not all signed: " + signed
    if handler.headers["x-amz-security-token"] != S3_SESSION:
        return "another session"
    if handler.headers["x-amz-content-sha256"] != hashlib.sha256(b"").hexdigest():
        return "another body"
    path = urllib.parse.quote(urllib.parse.unquote(handler.path), safe="/-_.~")
    lines = "".join(f"{name}:{' '.join(handler.headers[name].split())}\n" for name in names)
    request = "\n".join(["GET", path, "", lines, signed, handler.headers["x-amz-content-sha256"]])
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    secret = b"AWS4" + S3_SECRET.encode()
    for part in (day, region, "s3", "aws4_request"):
        secret = sign(secret, part)
    expected = hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(expected, signature) else "the signature is another one"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def setup(self):
        super().setup()
        with self.server.state.lock:
            self.server.state.connections += 1

    def answer(self, status, fields=(), body=b"", length=None):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        if length != -1:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True

    def do_GET(self):
        state = self.server.state
        with state.lock:
            state.requests += 1
            number = state.requests
        scheme = self.headers.get("Authorization", "-").split()[0]
        state.log(f"{self.path} {self.headers.get('Range', '-')} {scheme}")
        if state.options.die_after and number > state.options.die_after:
            os._exit(0)
        first, last = state.options.ill
        if first <= number <= last:
            return self.hang_up()
        fault, _, name = urllib.parse.unquote(self.path.partition("?")[0]).lstrip("/").partition("/")
        if fault == "statistics":
            return self.answer(200, body=f"{state.requests} requests, {state.connections} connections\n".encode())
        path = os.path.join(state.options.folder, name)
        if not os.path.isfile(path):
            return self.answer(404, body=b"<html>not here</html>")
        if fault.startswith("all-"):
            fault = fault[4:]
        elif name.endswith(".idx") and fault not in ("basic", "bearer", "s3"):
            fault = "fine"
        return self.serve(fault, path, state.count(self.path + self.headers.get("Range", "")))

    def serve(self, fault, path, times):
        """`times`: how often the same was asked for before."""
        with open(path, "rb") as file:
            content = file.read()
        early = getattr(self, "before_" + fault.replace("-", "_"), None)
        if early and early(times):
            return
        size = len(content) + (fault == "grown")
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        begin, end = (int(match[1]), min(int(match[2]) + 1, size)) if match else (0, size)
        if begin >= size or fault == "range":
            self.answer(416, [("Content-Range", f"bytes */{size // 2 if fault == 'range' else size}")])
            return
        etag = f'"{zlib.crc32(content):08x}"' if fault == "versioned" else '"one"'
        body = bytearray(content[begin:end])
        is_old = self.server.state.count(fault + path) < 2
        if fault == "changes" and not is_old:
            etag, body = '"two"', bytearray(len(body))
        if fault == "corrupt" or (fault == "corrupt-once" and times == 0):
            body[len(body) // 2] ^= 16
        fields = [("Content-Range", f"bytes {begin}-{end - 1}/{size}"), ("ETag", etag)]
        if fault == "long-etag":
            fields[1] = ("ETag", '"' + 300 * "x" + ('one"' if is_old else 'two"'))
        if fault == "alternating" and self.server.state.count("alternating") % 2:
            fields[1] = ("Last-Modified", "Tue, 01 Dec 2026 00:00:00 GMT")
        if fault == "modified":
            fields[1] = ("Last-Modified", f"Tue, 01 Dec 2026 00:00:{'00' if is_old else '01'} GMT")
        if fault == "whole" or (fault == "whole-now-and-then" and self.server.state.count(fault) % 3 == 2):
            return self.answer(200, [("ETag", etag)], content)
        if fault == "shifted":
            fields[0] = ("Content-Range", f"bytes {begin + 1}-{end}/{size + 1}")
        if fault == "unversioned":
            del fields[1]
        if fault == "rangeless":
            del fields[0]
        if fault == "encoded":
            fields.append(("Content-Encoding", "gzip"))
        if fault == "long":
            self.close_connection = True
            return self.answer(206, fields + [("Connection", "close")], body + bytes(100000), -1)
        is_cut = fault == "troubled" and self.server.state.count("bodies") % 10 == 8
        if fault == "cut" or is_cut or (fault == "cut-once" and times == 0):
            self.close_connection = True
            return self.answer(206, fields, body[:len(body) // 2], len(body))
        if fault == "trickle":
            return self.trickle(fields, body)
        self.answer(206, fields, body)

    def trickle(self, fields, body):
        self.answer(206, fields, b"", len(body))
        for byte in body:
            time.sleep(0.05)
            self.wfile.write(bytes([byte]))
            self.wfile.flush()

    # What comes before any file: true where the request is answered by it.

    def before_missing(self, times):
        self.answer(404, body=b"<html>not here</html>")
        return True

    def before_basic(self, times):
        expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") == expected:
            return False
        self.answer(401, [("WWW-Authenticate", 'Basic realm="shards"')])
        return True

    def before_bearer(self, times):
        if self.headers.get("Authorization") == "Bearer " + TOKEN:
            return False
        self.answer(401, [("WWW-Authenticate", "Bearer")])
        return True

    def before_s3(self, times):
        complaint = s3_complaint(self)
        if complaint:
            self.answer(403, body=complaint.encode())
        return bool(complaint)

    def before_region(self, times):
        self.answer(301, [("x-amz-bucket-region", "mars-1")])
        return True

    def before_busy(self, times):
        if times < 2:
            self.answer(503, [("Retry-After", "0")], b"busy")
        return times < 2

    def before_away(self, times):
        self.answer(503, [("Retry-After", "3600")])
        return True

    def before_away_for_days(self, times):
        self.answer(503, [("Retry-After", "864000")])
        return True

    def before_endless_head(self, times):
        self.send_response(206)
        for number in range(1000):
            self.send_header(f"X-{number}", 1000 * "x")
        self.end_headers()
        return True

    def before_endless_line(self, times):
        self.send_response(206)
        self.send_header("X", 1000000 * "x")
        self.end_headers()
        return True

    def before_nothing(self, times):
        self.answer(204)
        return True

    def before_proxy(self, times):
        self.answer(407)
        return True

    def before_ill(self, times):
        self.answer(500, body=b"x" * 200000)
        return True

    def before_silent(self, times):
        self.rfile.read(1)  # until the client goes away
        self.close_connection = True
        return True

    def before_silent_later(self, times):
        """Answers come for the first 20 requests alone."""
        return self.server.state.count("silent-later") >= 20 and self.before_silent(times)

    def before_drop(self, times):
        self.close_connection = True
        return True

    def before_slow(self, times):
        time.sleep(0.03)
        return False

    def before_gate(self, times):
        """Nobody is answered before 16 different ranges were asked for."""
        state = self.server.state
        with state.lock:
            state.at_gate.add(self.headers.get("Range"))
            if len(state.at_gate) == 16:
                state.gate.set()
        state.gate.wait()
        return False

    def before_flaky(self, times):
        """One request of a hundred fails, in turn with 503, a cut connection and a cut body."""
        number = self.server.state.count("flaky")
        if number % 100 != 50:
            return False
        if number // 100 % 2:
            self.close_connection = True
        else:
            self.answer(503)
        return True

    def before_troubled(self, times):
        """Of ten requests one fails with 503, one with a cut connection and one with a cut body."""
        number = self.server.state.count("troubled") % 10
        if number == 2:
            self.answer(503)
        elif number == 5:
            self.close_connection = True
        return number in (2, 5)

    def redirect(self, target):
        self.answer(302, [("Location", target)])
        return True

    def before_moved(self, times):
        return self.redirect(self.path.replace("moved/", "fine/", 1))

    def before_round(self, times):
        return self.redirect(self.path)

    def before_elsewhere(self, times):
        """To another server, which must not learn who asks."""
        other = self.server.state.options.other
        return self.redirect(other + self.path.replace("/elsewhere/", "/fine/", 1))

    def before_ftp(self, times):
        return self.redirect("ftp://127.0.0.1/x")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a client that went away


def ill_range(text):
    first, _, last = text.partition("-")
    return int(first), int(last)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--log", help="a line for each request: path, range, scheme of the authorization")
    parser.add_argument("--die-after", type=int, help="ends the process at the request after the n-th")
    parser.add_argument("--ill", type=ill_range, default=(0, -1), help="FIRST-LAST: these requests get no answer")
    parser.add_argument("--other", help="where /elsewhere/ points: http://127.0.0.1:PORT")
    parser.add_argument("--certificate", help="PEM with a key: TLS")
    options = parser.parse_args()
    server = Server(("127.0.0.1", 0), Handler)
    server.state = State(options)
    if options.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
