"""`budgie explore`: load the models, serve the page, open it in the browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar import progress
from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api import Model

_PATIENCE = 0.3  # seconds in which a step of what is being computed may end by itself


def explore(
    runs: Sequence[str] = (),
    *,
    device: str = "auto",
    threads: int | str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
    say: Callable[[str], object] = print,
    debug: bool = False,
    tours: Sequence[str | Path] = (),
) -> bool:
    """Serve the page about `runs` (none: the demo's models) until Ctrl-C. `say` gets its address.

    tours: files of own tours (`tour.parse_tour`); the page then begins with the first. Returns whether
    all came to rest: false while a model still computes, in a thread that nobody waits for.
    """
    from budgerigar.explorer.lessons import tours as checked
    from budgerigar.explorer.server import address, bind, make_server
    from budgerigar.explorer.sessions import Sessions

    checked(tours)
    listening = bind(host, port)  # first, for it fails sooner than models are loaded
    with listening:
        sessions = Sessions(load_models(runs, device, threads))
        shown = address(host, listening) + ("#view=lesson" if tours else "")
        say(shown)
        progress.note(f"The page shows {', '.join(sessions.names)}. Ctrl-C ends it.")
        if browser and has_desktop(os.environ):
            _open(shown)
        try:
            make_server(sessions, listening, debug=debug, own_tours=tours).run([listening])
        except KeyboardInterrupt:
            pass  # how it is meant to end
        finally:
            sessions.close()
        return sessions.rests(_PATIENCE)


def load_models(
    runs: Sequence[str], device: str = "auto", threads: int | str | None = None
) -> dict[str, Model]:
    """The models by short names: the last part of what they were asked for by.

    Raises:
        UserError: one is not there, or cannot be looked into.
    """
    from budgerigar import api

    if not runs:
        from budgerigar.experiments.demo_models import demo_models

        settings: dict[str, Any] = {} if threads is None else {"threads": threads}
        runs = [str(path) for path in demo_models(Path("runs"), **settings)]
    models: dict[str, Model] = {}
    with progress.track("loading", total=len(runs), unit="models") as job:
        for run in runs:
            model = api.load(run, device=device, threads=threads)
            if model.role == "vectors":
                raise UserError(
                    f"{run} is a table of word vectors and reads no text, so there is nothing to look "
                    f"at on this page; `budgie look {run} WORD` shows its neighbours"
                )
            models[_new_name(run, model, models)] = model
            job.advance()
    return models


def _new_name(run: str, model: Model, taken: Mapping[str, Any]) -> str:
    """`last` is called by its folder; a second of the same name gets a number."""
    place = model.folder if run == "last" else None
    name = (place or Path(run)).resolve().name
    numbered = (f"{name}-{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)


def has_desktop(environment: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a browser window could open here: not over ssh, not on a machine without a screen.

    (Python's `webbrowser` would start a browser for terminals there, over our own lines.)
    """
    if environment.get("BROWSER"):
        return True
    if platform in ("darwin", "win32"):
        return "SSH_CONNECTION" not in environment
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def _open(shown: str) -> None:
    """Open the page; without a browser its address, printed before, is enough."""
    import threading
    import webbrowser

    def try_to() -> None:
        try:
            webbrowser.open(shown)
        except (OSError, webbrowser.Error):
            return

    # some browsers return only when they are closed
    threading.Thread(target=try_to, daemon=True).start()
