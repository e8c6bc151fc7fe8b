"""What is written to files: the library's numbers within what is said, small, and harmless."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import viewed
from toy import SOURCE, STORY, TARGET, chinese, english, network, translator, words

from budgerigar.errors import UserError
from budgerigar.inspection import trace
from budgerigar.inspection.export import frame, look_of, page_of
from budgerigar.inspection.pair_traces import trace_pair
from budgerigar.inspection.records import Recorded, key_of, payload_of, record
from budgerigar.inspection.site_folder import SitePage, write_site
from budgerigar.inspection.views import ask, can, look_at, unpack
from budgerigar.inspection.views.payload import described

DERIVED = ("of_head", "of_layer", "matrices", "untrained", "turns")
EVIL = "</script><b>x</b><!-- & \u2028 \"'> budgerigar"


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="recorded">(.*?)</script>', page, re.S)
    assert found
    data = json.loads(found[1])
    assert isinstance(data, dict)
    return data


def value(found: Recorded, name: str, **params: Any) -> Any:
    return unpack(payload_of(found.records[key_of(name, params)]))


def close(told: Any, wanted: Any) -> None:
    """Equal, arrays within a step of float16."""
    if isinstance(wanted, dict):
        for key, part in wanted.items():
            close(told[key], part)
    elif isinstance(wanted, list):
        assert len(told) == len(wanted)
        for one, other in zip(told, wanted, strict=True):
            close(one, other)
    elif isinstance(wanted, np.ndarray):
        room = float(np.abs(wanted).max(initial=0.0)) / 1900 + 1e-7
        np.testing.assert_allclose(told, wanted, rtol=0, atol=room)
    else:
        assert told == wanted


@pytest.mark.parametrize("kind", viewed.MODELS)
def test_records_are_what_the_views_say(kind: str) -> None:
    look = viewed.look(kind)
    found = record(look, limit=0)
    offered = set(can(look.model)) - {"count", "generate", "roles", "born", "off", "compare"}
    # too many to hold: a file says that the live page has them; and none of this text is masked
    on_demand = {"unit", "matrix", "glance"}
    assert {"row", "steps", "links", *found.views} >= offered - on_demand
    assert set(found.views) <= {*can(look.model), "mask_out"}
    for key, text in found.records.items():
        name, params = json.loads(key)
        if name not in DERIVED:
            close(unpack(payload_of(text)), unpack(ask(look, name, params)))


def test_where_heads_look_from_masked_tokens() -> None:
    model = viewed.look("encoder").model
    look = look_at(model, {**viewed.question("encoder"), "mask": [2, 4]})
    found = record(look, limit=0)
    for place in (2, 4):
        for direction in ("from", "to"):
            params = {"position": place, "direction": direction, "untrained": True}
            close(value(found, "glance", **params), unpack(ask(look, "glance", params)))


def test_every_array_says_how_far_it_may_be_off() -> None:
    look = viewed.look("decoder", positions="rotary", n_kv_heads=2)
    found = record(look)
    head = look.trace.attention("L1.H3")
    place = {"layer": 1, "head": 3, "of": "decoder", "kind": "self"}
    told = value(found, "of_head", **place)
    weights = value(found, "head", **place)["weights"]
    wanted = {"q": head.queries, "k": head.keys, "v": head.values, "scores": head.scores}
    payload = payload_of(found.records[key_of("of_head", place)])
    most = max(entry.get("within", 0.0) for entry in described(payload))
    for name, array in wanted.items():
        assert 0 < np.abs(told[name] - array).max() <= most < 0.05
    (entry,) = (
        one
        for one in described(payload_of(found.records[key_of("head", place)]))
        if one["shape"] == list(weights.shape) and "scale" in one
    )
    assert np.abs(weights - head.weights).max() <= entry["within"] < 1e-5
    layer = value(found, "of_layer", layer=1, of="decoder", kind="self")
    close(layer["before"]["vector"], look.trace.tap("decoder.1.residual_before"))
    close(value(found, "untrained", of="decoder", kind="self")["weights"][7],
          look.untrained.attention("L1.H3").weights)  # fmt: skip


def test_full_keeps_float32_and_everything() -> None:
    look = viewed.look("decoder")
    small, full = record(look, limit=0), record(look, full=True)
    assert small.records.keys() < full.records.keys()
    head = look.trace.attention("L0.H1")
    place = {"layer": 0, "head": 1, "of": "decoder", "kind": "self"}
    told = value(full, "of_head", **place)
    assert np.array_equal(told["q"], head.queries)
    assert np.array_equal(told["scores"], head.scores)
    assert np.array_equal(value(full, "head", **place)["weights"], head.weights)
    assert key_of(
        "block", {"layer": 1, "position": 3, "of": "decoder", "units": 12, "words": 5}
    ) in (full.records)
    for text in full.records.values():
        assert all(entry["type"] != "f2" for entry in described(payload_of(text)))


def test_six_layers_and_64_tokens_are_under_4_mb() -> None:
    wide = {"n_layers": 6, "n_heads": 8, "d_model": 256, "context_length": 64, "init_std": 0.05}
    ids = torch.randint(1, 256, (64,), generator=torch.Generator().manual_seed(1)).tolist()
    tokenizer = viewed.tokenizer("byte")
    traced = trace(network(8000, **wide), tokenizer, ids)
    page = page_of(look_of(traced))
    print(f"{len(page.encode()):,} bytes")
    assert len(page.encode()) < 4_000_000
    records = data_of(page)["looks"][0]["records"]
    assert sum(key.startswith('["of_head"') for key in records) == 48
    assert len(page_of(look_of(traced), steps=False).encode()) < 1_500_000


def test_heads_that_were_switched_off_have_no_steps() -> None:
    """What the model itself computed there is another thing than what is recomputed."""
    model = viewed.decoder().edited(off=["L0.H1"])
    found = record(look_of(model.trace(STORY)), limit=0)
    place = {"layer": 0, "of": "decoder", "kind": "self"}
    assert key_of("of_head", {**place, "head": 0}) in found.records
    assert key_of("of_head", {**place, "head": 1}) not in found.records
    assert key_of("head", {**place, "head": 1}) in found.records


def test_a_text_that_is_too_long_for_steps_keeps_its_weights(monkeypatch: Any) -> None:
    monkeypatch.setattr("budgerigar.inspection.records.MOST_STEPS", 100)
    found = record(viewed.look("decoder"), limit=0)
    assert "steps" not in found.views
    assert {"head", "row", "links", "grid"} <= set(found.views)


# -- pages -----------------------------------------------------------------------------------------


def test_a_trace_writes_the_page(tmp_path: Path) -> None:
    model = viewed.decoder("bpe")
    page = model.trace(EVIL).html(tmp_path / "it.html", head="L1.H2").read_text("utf-8")
    data = data_of(page)
    assert data["looks"][0]["question"] == {"model": "this model", "text": EVIL}
    assert data["state"] == {
        "view": "head",
        "selection": {"of": "decoder", "kind": "self", "layer": 1, "head": 2},
    }
    assert data["models"][0]["kind"] == "decoder"
    before = page.split("<script>")[0]
    assert before.count("<script") == 2
    assert "<b>" not in before
    assert not re.search(r"<(?:script|img|link|iframe)[^>]* src=|@import|url\((?!data:)", before)


def test_traces_without_a_model_write_pages_too(tmp_path: Path) -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY, start_id=0)
    look = look_of(seen)
    assert look.question == {"ids": seen.ids}
    assert unpack(ask(look, "read"))["spellings"]["read"]["added"] == [0]
    pair = trace_pair(translator(), english(), SOURCE, TARGET, source_tokenizer=chinese())
    data = data_of(pair.html(tmp_path / "pair.html", of="encoder").read_text("utf-8"))
    question = data["looks"][0]["question"]
    assert (question["source"], question["target"]) == (SOURCE, pair.targets)
    assert data["state"]["selection"] == {"of": "encoder", "kind": "self"}
    views = set(data["looks"][0]["views"])
    assert {"alignment", "head", "steps", "links", "lens", "block"} <= views
    with pytest.raises(UserError, match="does not know its tokenizer"):
        look_of(look.untrained)


def test_notebooks_get_small_frames() -> None:
    seen = viewed.decoder().trace(STORY)
    head = seen.attention("L1.H0")
    for shown, heads, steps in ((head, 1, 1), (seen, 8, 0)):
        html = shown._repr_html_()
        assert re.fullmatch(
            r'<iframe srcdoc="[^"]*" style="[^"]*" title="[^"]*">[^<]*</iframe>', html
        )
        inner = re.findall(r'srcdoc="([^"]*)"', html)[0]
        records = data_of(unescape(inner))["looks"][0]["records"]
        assert sum(key.startswith('["head"') for key in records) == heads
        assert sum(key.startswith('["of_head"') for key in records) == steps
        assert sum(map(len, records.values())) < 60_000
    assert frame('<p title="&">').startswith(
        '<iframe srcdoc="&lt;p title=&quot;&amp;&quot;&gt;" '
        'style="width:100%;height:760px;border:0" title="Budgerigar: look inside">Budgerigar: '
    )


def test_a_site_has_its_records_beside_it(tmp_path: Path) -> None:
    first, second = viewed.look("decoder"), viewed.look("encoder-decoder")
    first.question["model"], second.question["model"] = "gpt", "zh-en"
    pages = [
        SitePage("all", "All <of> it", [first, second], besides=False),
        SitePage("roles", "R", [first], besides=False),
    ]
    folder = write_site(tmp_path / "site", pages)
    assert [p.name for p in tmp_path.iterdir()] == ["site"]
    for name in ("main.js", "style.css", "i18n/zh.json", "index.html", "all.html", "roles.html"):
        assert (folder / name).is_file(), name
    page = (folder / "all.html").read_text("utf-8")
    assert "<title>All &lt;of&gt; it</title>" in page
    assert "script-src 'self'" in page
    assert "unsafe" not in page
    data = data_of(page)
    chosen = [one["question"]["model"] for one in data["looks"] if "beside" not in one]
    assert chosen == ["gpt", "zh-en"]
    records = json.loads((folder / data["looks"][0]["file"]).read_text("utf-8"))
    close(unpack(payload_of(records['["read",{}]'])), unpack(ask(first, "read")))
    files = {one["file"] for one in data["looks"]}
    assert {f"records/{one.name}" for one in (folder / "records").iterdir()} == files
    assert 'href="all.html"' in (folder / "index.html").read_text("utf-8")
    with pytest.raises(UserError, match="cannot name a page"):
        write_site(tmp_path / "other", [SitePage("../x", "", [first])])
    assert not (tmp_path / "other").exists()
