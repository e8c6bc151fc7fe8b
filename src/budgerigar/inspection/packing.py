"""The page in a fifth of its size, for the cells of a notebook: each holds a page of its own, and a
notebook with many of them is to stay small enough to be kept, sent and opened.

Script, styles and words are deflated into one block of base64; a script of a few lines inflates it and
puts them into the document. The policy of the page names the hashes of these lines and of what they
inflate, so that nothing else may run and nothing is asked of any host, as in a file.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from budgerigar.inspection.inlining import (
    document,
    page_script,
    page_style,
    page_words,
    policy,
)

_LOADER = """
const add = (tag, text, more = {}) =>
  document.body.append(Object.assign(document.createElement(tag), more, { textContent: text }));
const packed = document.getElementById("packed");
const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
const failed = (error) => {
  document.querySelector("main p").textContent =
    `This page needs a browser of 2023 or later: ${error.message}`;
};
const inflated = async () => {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const { style, words, script } = await new Response(stream).json();
  add("style", style);
  add("script", words, { type: "application/json", id: "words" });
  add("script", script);
};
inflated().catch(failed);
"""


def packed_page(title: str, blocks: Mapping[str, Any]) -> str:
    """As `inlining.whole_page`, smaller."""
    packed = f'<script type="text/plain" id="packed">{_packed()}</script>'
    return document(title, _policy(), blocks, f"{packed}\n<script>{_LOADER}</script>")


@cache
def _packed() -> str:
    """Style, words and script, deflated, in base64."""
    words = json.dumps(page_words(), ensure_ascii=False, separators=(",", ":"))
    parts = {"style": page_style(), "words": words, "script": page_script()}
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


@cache
def _policy() -> str:
    return policy([_LOADER, page_script()], [page_style()])
