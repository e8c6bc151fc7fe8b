"""Modules of the page against the library: payloads, probabilities, the rows that hide a token."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import viewed
from pages import Visit, visit
from served import serving

from budgerigar.explorer.sessions import Sessions
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.sampling import process_logits, processors
from budgerigar.inspection.views.payload import Stored, pack


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Visit]:
    """A page that has loaded nothing of ours but what a test imports."""
    with serving(Sessions({})) as served, visit(browser, served.host) as shown:
        shown.page.goto(f"http://{served.host}/index.html")
        yield shown


def run(tab: Visit, module: str, expression: str, given: Any = None) -> Any:
    """An expression of `m` (the module) and `given`, computed in the browser."""
    script = f'async (given) => {{ const m = await import("/{module}"); return {expression}; }}'
    return tab.page.evaluate(script, given)


def test_payloads_are_read_as_the_library_wrote_them(tab: Visit) -> None:
    draw = np.random.default_rng(5)
    floats = draw.normal(size=(3, 4)).astype(np.float32)
    shares = draw.random(7)
    halves = np.array([0.0, -0.0, 1.5, -65504.0, 6e-8, 1 / 3], dtype=np.float32)
    value = {
        "f4": floats,
        "f2": Stored(halves, "f2"),
        "u1": Stored(shares, "u1", 0.0, 1.0),
        "u2": Stored(shares, "u2", 0.0, 1.0),
        "codes": np.array([0, 3, 255], dtype=np.uint8),
        "ids": np.array([-1, 70000]),
        "places": np.array([300, 65535]),
        "words": ["鹦鹉 </script>", None, 1.5, {"deep": [np.arange(3)]}],
    }
    text = base64.b64encode(pack(value)).decode()
    spread = (
        "JSON.parse(JSON.stringify(m.unpack(m.fromBase64(given)), (key, each) => "
        "ArrayBuffer.isView(each) ? Array.from(each) : each))"
    )
    got = run(tab, "payload.js", spread, text)
    assert np.array_equal(np.float32(got["f4"]["data"]).reshape(3, 4), floats)
    assert got["f4"]["shape"] == [3, 4]
    assert np.array_equal(np.float32(got["f2"]["data"]), halves.astype(np.float16).astype("f4"))
    for kind, limit in (("u1", 0.5 / 255), ("u2", 0.5 / 65535)):
        error = np.abs(np.array(got[kind]["data"]) - shares).max()
        assert error <= got[kind]["within"] <= limit * 1.01
    assert got["codes"]["data"] == [0, 3, 255]
    assert got["ids"]["data"] == [-1, 70000]
    assert got["places"]["data"] == [300, 65535]
    assert got["words"][:3] == ["鹦鹉 </script>", None, 1.5]
    assert got["words"][3]["deep"][0]["data"] == [0, 1, 2]


OPTIONS = [
    {},
    {"temperature": 0.0},
    {"temperature": 0.05, "top_k": 3},
    {"temperature": 0.7, "top_k": 5, "top_p": 0.9},
    {"temperature": 1.6, "top_p": 0.35},
    {"top_k": 1},
    {"temperature": 1e-30},
    {"temperature": 1.6, "top_k": 5, "top_p": 0.8, "never": [30, 7, 2]},
    {"temperature": 0.0, "never": list(range(20))},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sliders_are_the_librarys_sampling(tab: Visit, options: dict[str, Any]) -> None:
    logits = torch.randn(40, generator=torch.Generator().manual_seed(2)) * 3
    logits[7] = logits[11]  # a tie stays or goes as a whole
    never = options.get("never", [])
    sampling = {key: value for key, value in options.items() if key != "never"}
    asked = SamplingOptions(**{"temperature": 1.0, "top_k": None, "top_p": None, **sampling})
    forbidden = torch.isin(torch.arange(40), torch.tensor(never, dtype=torch.long))
    left = process_logits(logits[None], processors(asked, forbidden))[0]
    wanted = left.double().softmax(0).numpy()
    if asked.temperature == 0:
        wanted = np.eye(40)[int(left.argmax())]
    given = {
        "logits": logits.tolist(),
        "options": {
            "never": never,
            "temperature": asked.temperature,
            "topK": options.get("top_k", 0),
            "topP": options.get("top_p", 1),
        },
    }
    call = "Array.from(m.filtered(Float32Array.from(given.logits), given.options))"
    got = np.array(run(tab, "sampling.js", call, given))
    np.testing.assert_allclose(got, wanted, atol=2e-6)
    assert ((got == 0) == (wanted == 0)).all()


def test_the_cache_is_drawn_as_full_as_its_bytes_say(tab: Visit) -> None:
    """A token is chosen before it is read: it is not in the cache that it was chosen with."""
    looked = viewed.look_at(viewed.decoder(context_length=16), {"text": "It had green feathers ."})
    answer = viewed.view(looked, "generate", count=14, temperature=1.5, seed=3)
    each, tokens = answer["carries"]["per_token"], answer["tokens"]
    told = [answer["start_bytes"], *(token["bytes"] for token in tokens)]
    assert any(token["rewound"] for token in tokens)
    given = {
        "start_tokens": answer["start_tokens"],
        "tokens": [{"read": token["read"]} for token in tokens],
    }
    steps = "given.tokens.map((_, at) => m.cached(given, at + 1))"
    drawn = run(tab, "writing.js", f"[m.cached(given, 0), ...{steps}]", given)
    assert [each * tokens for tokens in drawn] == told


def test_questions_have_the_librarys_canonical_form(tab: Visit) -> None:
    asked = [
        {"text": '轩辕 "</script>"\n\u2028', "model": "a", "off": ["L2.H3"], "target": None},
        "head",
        {"of": None, "layer": 1, "top_p": 0.25, "mask": True},
    ]
    wanted = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert run(tab, "source.js", "m.canonical(given)", asked) == wanted


def test_hiding_the_first_token_renormalises_the_rest(tab: Visit) -> None:
    weights = np.array([[1, 0, 0], [0.75, 0.25, 0], [0.5, 0.125, 0.375]])
    script = (
        "(() => { const hidden = m.withoutFirst({ queries: given.names, keys: given.names, "
        "values: Float32Array.from(given.weights), codes: Uint8Array.from(given.codes) }); "
        "return [Array.from(hidden.values), Array.from(hidden.codes)]; })()"
    )
    given = {
        "names": ["a", "b", "c"],
        "weights": weights.ravel().tolist(),
        "codes": [0, 1, 1, 0, 0, 1, 0, 0, 0],
    }
    values, codes = run(tab, "matrix.js", script, given)
    wanted = [[0, 0, 0], [0, 1, 0], [0, 0.25, 0.75]]  # A[i,j] / (1 - A[i,0])
    np.testing.assert_allclose(np.reshape(values, (3, 3)), wanted, atol=1e-6)
    assert codes == [255, 1, 1, 255, 0, 1, 255, 0, 0]


def test_a_transposed_matrix_keeps_its_labels(tab: Visit) -> None:
    script = (
        "(() => { const shown = m.arranged({ queries: ['q0', 'q1'], keys: ['k0', 'k1', 'k2'], "
        "queryAxis: 'Q', keyAxis: 'K', codes: null, "
        "values: Float32Array.from([1, 2, 3, 4, 5, 6]) }, true); "
        "return [shown.rows, shown.columns, shown.rowAxis, Array.from(shown.values)]; })()"
    )
    rows, columns, axis, values = run(tab, "matrix.js", script)
    assert (rows, columns, axis) == (["k0", "k1", "k2"], ["q0", "q1"], "K")
    assert values == [1, 4, 2, 5, 3, 6]


def test_the_address_holds_the_whole_state(tab: Visit) -> None:
    state = {
        "view": "head",
        "question": {
            "model": "a",
            "source": "1.5",
            "target": None,
            "off": ["L0.H1"],
            "blank": True,
        },
        "selection": {
            "of": "decoder",
            "kind": "cross",
            "layer": 2,
            "head": 0,
            "query": 7,
            "key": 0,
        },
        "picks": "key",
        "theme": "dark",
        "language": "zh",
        "scale": "log",
        "range": "own",
        "hideSink": True,
        "transpose": True,
        "pinned": ["L0.H1"],
        "settings": {"sort": "entropy", "sampling": {"topK": 5}},
    }
    assert run(tab, "state.js", "m.fromHash(m.toHash(given))", state) == state
    nonsense = "#s.layer=-1&s.query=x&v.sort={&q.off=[&view=head&unknown=1"
    found = run(tab, "state.js", "m.fromHash(given)", nonsense)
    assert found["selection"]["layer"] == 0
    assert found["selection"]["query"] is None
    assert found["view"] == "head"


def test_numbers_never_say_more_than_they_are(tab: Visit) -> None:
    shares = [0.0, 1.0, 0.99999, 0.00001, 0.005, 0.1234]
    words = run(tab, "dom.js", "given.map(m.percent)", shares)
    assert words == ["0 %", "100 %", "> 99.9 %", "< 0.01 %", "0.50 %", "12.3 %"]
    assert run(tab, "dom.js", "m.number(-0.5)") == "−0.500"
    assert run(tab, "dom.js", "m.number(1.2e-7)") == "1.2e−7"
    assert run(tab, "dom.js", "m.number(-Infinity)") == "−∞"
