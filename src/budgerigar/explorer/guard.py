"""Who may talk to the page's server: the page itself, opened on this machine, and nobody's else.

The server listens on this machine only, but every page of the web that is open in a browser here can
send requests to it. Three things keep them out, and a request must pass all of them:

Host: a name of this machine with our port. A stranger's domain that is pointed at 127.0.0.1 (DNS
rebinding) brings its own name here.
Origin and Sec-Fetch-Site: where sent, those of our own page; browsers do not let a page forge them.
The kind of the body (see `asking`): a form can send text, but application/json only a script of our
own origin.

The answers' headers keep the page from loading or asking anything of another place, and other pages
from framing or embedding it.
"""

from __future__ import annotations

from starlette.datastructures import Headers

from budgerigar.explorer.asking import RefusedError

NAMES = ("127.0.0.1", "localhost", "[::1]")
"""of this machine, as they stand in an address"""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""on every answer"""


def our_hosts(port: int) -> set[str]:
    """What may stand in the header Host of a server at `port`."""
    return {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port == 80 else set())


def check(method: str, path: str, headers: Headers, hosts: set[str]) -> None:
    """Raise `RefusedError` for a request that is not our page's; `hosts`: see `our_hosts`."""
    named = [host.lower() for host in headers.getlist("host")]
    if len(named) != 1 or named[0] not in hosts:
        raise RefusedError(421, f"this server is not {short(', '.join(named)) or 'a nameless one'}")
    origins = headers.getlist("origin")
    if any(origin.lower() != f"http://{named[0]}" for origin in origins):
        raise RefusedError(403, f"a page of {short(', '.join(origins))} may not ask here")
    sites = set(headers.getlist("sec-fetch-site")) - {"same-origin", "none"}
    if sites and not _is_link(method, path, headers):
        raise RefusedError(403, f"a {short(', '.join(sites))} page may not ask here")


def _is_link(method: str, path: str, headers: Headers) -> bool:
    """Somebody followed a link to the page: harmless, and its address may stand in a notebook."""
    return (
        method == "GET"
        and not path.startswith("/api")
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def short(text: str, most: int = 80) -> str:
    """What a stranger sent, fit for a line of a terminal: no control characters, not too long."""
    line = " ".join(text[: 4 * most].split())
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
