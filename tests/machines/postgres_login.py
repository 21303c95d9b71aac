"""A login to PostgreSQL by TLS in plain Python, for pods that have no client: what `program()` returns runs there.

It reads DATABASE_URL, asks one query and prints the answer, or `refused: ` and what the server said. The certificate is
held against the authority in the variable `ca.crt` where there is one.
"""

from __future__ import annotations

from typing import Final

_PROGRAM: Final = """
import base64, hashlib, hmac, os, secrets, socket, ssl, struct, sys, urllib.parse

url = urllib.parse.urlsplit(os.environ["DATABASE_URL"])
user, password = urllib.parse.unquote(url.username), urllib.parse.unquote(url.password)
database = DATABASE or url.path.lstrip("/")


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def exactly(count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise SystemExit("the server closed the connection")
        data += more
    return data


def receive():
    kind = exactly(1)
    body = exactly(struct.unpack("!I", exactly(4))[0] - 4)
    if kind == b"E":
        fields = dict((part[:1], part[1:].decode()) for part in body.split(b"\\0") if part)
        print("refused: " + fields[b"M"])
        raise SystemExit(0)
    return kind, body


plain = socket.create_connection((url.hostname, url.port or 5432), timeout=60)
plain.sendall(struct.pack("!II", 8, 80877103))
if plain.recv(1) != b"S":
    raise SystemExit("the server offers no TLS")
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
if os.environ.get("ca.crt"):
    context.load_verify_locations(cadata=os.environ["ca.crt"])
    context.verify_mode = ssl.CERT_REQUIRED
connection = context.wrap_socket(plain, server_hostname=url.hostname)
start = b"user\\0" + user.encode() + b"\\0database\\0" + database.encode() + b"\\0\\0"
connection.sendall(struct.pack("!II", len(start) + 8, 196608) + start)
kind, body = receive()
assert kind == b"R" and struct.unpack("!I", body[:4])[0] == 10, body
nonce = secrets.token_urlsafe(18)
first = "n=,r=" + nonce
initial = ("n,," + first).encode()
connection.sendall(message(b"p", b"SCRAM-SHA-256\\0" + struct.pack("!I", len(initial)) + initial))
kind, body = receive()
challenge = body[4:].decode()
parts = dict(part.split("=", 1) for part in challenge.split(","))
salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
client_key = hmac.digest(salted, b"Client Key", "sha256")
without_proof = "c=biws,r=" + parts["r"]
signed = ",".join((first, challenge, without_proof)).encode()
signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
connection.sendall(message(b"p", (without_proof + ",p=" + proof).encode()))
while True:
    kind, body = receive()
    if kind == b"Z":
        break
connection.sendall(message(b"Q", QUERY.encode() + b"\\0"))
while True:
    kind, body = receive()
    if kind == b"D":
        length = struct.unpack("!i", body[2:6])[0]
        print(connection.version(), body[6 : 6 + length].decode())
    if kind == b"Z":
        break
"""


def program(query: str, *, database: str = "") -> str:
    """`database` is another than the URL's."""
    return f"QUERY = {query!r}\nDATABASE = {database!r}\n{_PROGRAM}"
