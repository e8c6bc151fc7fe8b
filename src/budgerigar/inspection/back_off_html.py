"""The back-off of an n-gram as one offline page: the text, and a table for each token.

There is no script in it: a token of the text is a link to its table, which shows while it is the link's
target. The page asks nothing of any host (its own Content-Security-Policy forbids it).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from budgerigar.inspection.back_off import BackOff, TokenBackOff
from budgerigar.inspection.back_off_text import (
    COLUMNS,
    explained,
    heading,
    number,
    sentences,
    summary,
    table_rows,
)
from budgerigar.inspection.palette import ink, viridis

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --line: #999 }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #eee; --paper: #161616; --line: #777 }} }}
body {{ margin: 1rem auto; max-width: 62rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 15px/1.45 system-ui, "Noto Sans CJK SC", "Noto Sans SC",
  "PingFang SC", "Microsoft YaHei", sans-serif }}
h1 {{ font-size: 1.1rem; unicode-bidi: plaintext }}
h2 {{ font-size: 1rem; margin: 0 0 .3rem; unicode-bidi: plaintext }}
#text {{ position: sticky; top: 0; max-height: 40vh; overflow: auto; background: var(--paper);
  border-bottom: 1px solid var(--line); padding: .4rem 0; line-height: 2;
  font-family: ui-monospace, "Noto Sans Mono CJK SC", monospace }}
#text a, #text b {{ padding: .15em .12em; margin: 0 1px; border-radius: 2px; font-weight: normal }}
#text a {{ text-decoration: none }}
#text a:hover, #text a:focus {{ outline: 2px solid #d55e00 }}
pre {{ white-space: pre-wrap }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }}
td, th {{ padding: 1px 9px; text-align: right; border-bottom: 1px solid var(--line) }}
td:nth-child(2), th:nth-child(2) {{ text-align: left }}
section {{ display: none; scroll-margin-top: 45vh; margin: 1.2rem 0 }}
section:target, section.asked, #all:checked ~ section {{ display: block }}
</style>
</head>
<body>
<h1>{about}</h1>
<p>{exact}</p>
<p>Colour: length of the longest n-gram seen, context and token: {scale}. Choose a token to
see its table.</p>
<p id="text">{text}</p>
<input type="checkbox" id="all"><label for="all"> tables of all tokens</label>
{tables}
<pre>{explained}

{summary}</pre>
</body>
</html>
"""


def page(found: BackOff, asked: Sequence[int] = ()) -> str:
    """The HTML text; the tables of the positions `asked` are open."""
    about, exact = heading(found)
    return _PAGE.format(
        title=escape(f"back-off: {about}"),
        about=escape(about),
        exact=escape(exact),
        scale=" ".join(
            f"<b style='{_style(n / found.order)}'>&nbsp;{n}&nbsp;</b>"
            for n in range(found.order + 1)
        ),
        text="<wbr>".join(
            _in_text(found, label, token)
            for label, token in zip(found.trace.labels, found.tokens, strict=True)
        ),
        summary=escape("\n".join(summary(found))),
        tables="\n".join(_section(found, t, t.position in asked) for t in found.predicted),
        explained=escape("\n".join(explained(found))),
    )


def _style(share: float) -> str:
    """Inline colours; a span of the scale and of the text look alike."""
    background = viridis(share)
    return f"background:rgb{background};color:rgb{ink(background)}".replace(" ", "")


def _in_text(found: BackOff, label: str, token: TokenBackOff | None) -> str:
    end = "<br>" if label == "↵" else ""
    if token is None:
        return f"<b title='given: nothing predicts it'>{escape(label)}</b>{end}"
    title = f"{token.matched} of {found.order}, {token.nats:.2f} nats"
    style = _style(token.matched / found.order)
    link = f'<a href="#t{token.position}" title="{title}" style="{style}">{escape(label)}</a>'
    return link + end


def _section(found: BackOff, token: TokenBackOff, asked: bool) -> str:
    words = sentences(found, token)
    heads = "".join(f"<th>{name}</th>" for name in COLUMNS)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table_rows(found, token)
    )
    guesses = ", ".join(f"{name} {number(chance)}" for name, chance in found.likeliest(token))
    known = "".join(f"<p>{escape(line)}</p>" for line in words[1:])
    shown = ' class="asked"' if asked else ""
    return (
        f'<section id="t{token.position}"{shown}><h2>{escape(words[0])}</h2>{known}\n'
        f"<table><tr>{heads}</tr>\n{rows}</table>\n"
        f"<p>likeliest here: {escape(guesses)}</p></section>"
    )
