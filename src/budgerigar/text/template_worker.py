"""Renders one chat template, as a process of its own: see `chat_template`.

A template is a program that came with a file. The sandbox keeps it from reaching anything; limits
on time and memory, which a process alone can have, keep it from running for ever or filling the
machine. Reads one JSON object from stdin, writes one to stdout. Imports nothing of the package.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class RefusedError(Exception):
    """`raise_exception` of a template: the messages are not as its authors want them."""


class Generation(Extension):
    """`{% generation %}`, with which authors mark what a model is trained on, marks nothing here."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The statements inside, as they are."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with products of a bounded size."""

    intercepted_binops = frozenset(["*", "**"])
    most = 1 << 22

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Numbers below a bound, and texts and lists that are not repeated beyond it."""
        sizes = [len(v) if hasattr(v, "__len__") else abs(v) for v in (left, right)]
        if operator == "**" and (sizes[0] > 1000 or sizes[1] > 100):
            raise SecurityError("a power of large numbers")
        if (
            operator == "*"
            and sizes[0] * sizes[1] > self.most
            and hasattr(left, "__len__") + hasattr(right, "__len__")
        ):
            raise SecurityError(f"a text or list repeated to more than {self.most:,}")
        return super().call_binop(context, operator, left, right)


def environment() -> Environment:
    """What templates of Hugging Face's may use: their own `tojson`, loop controls, the date."""

    def refuse(message: str) -> None:
        raise RefusedError(message)

    def to_json(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    made = Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def render(template: str, variables: dict[str, Any], most: int) -> str:
    """The text, at most `most` characters of it."""
    parts, length = [], 0
    for part in environment().from_string(template).generate(**variables):
        parts.append(part)
        length += len(part)
        if length > most:
            raise SecurityError(f"it writes more than {most:,} characters")
    return "".join(parts)


def limit(seconds: int, n_bytes: int) -> None:
    """Let the system end this process at that much time or memory, where it can."""
    try:
        import resource
    except ImportError:  # Windows: the parent's clock is the limit
        return
    for kind, value in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, n_bytes)):
        _, most = resource.getrlimit(kind)
        bound = value if most == resource.RLIM_INFINITY else min(value, most)
        try:
            resource.setrlimit(kind, (bound, bound))
        except (ValueError, OSError):  # macOS refuses a limit on memory
            continue


def answer(request: dict[str, Any]) -> dict[str, str]:
    """{"text": …}, or {"error": …} in words, or {"refused": …} where the template refuses."""
    try:
        text = render(request["template"], request["variables"], request["most"])
    except RefusedError as error:
        return {"refused": str(error)}
    except SecurityError as error:
        return {"error": f"it tries what a template may not: {error}"}
    except TemplateSyntaxError as error:
        return {"error": f"line {error.lineno}: {error.message}"}
    except TemplateError as error:
        return {"error": str(error) or type(error).__name__}
    except RecursionError:
        return {"error": "it calls itself without end"}
    except MemoryError:
        return {"error": "it needs too much memory"}
    except Exception as error:  # whatever a template's own code may raise
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    return {"text": text}


def main() -> None:
    """One request, one answer."""
    request = json.loads(sys.stdin.buffer.read())
    limit(request["seconds"], request["bytes"])
    sys.stdout.buffer.write(json.dumps(answer(request)).encode())


if __name__ == "__main__":
    main()
