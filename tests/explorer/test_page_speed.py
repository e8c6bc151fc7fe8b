"""How long the page takes to draw: numbers to read, with limits that a busy machine keeps too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import visit
from served import Served, serving
from toy import network

import budgerigar as bg
from budgerigar.api.model import Model
from budgerigar.explorer.sessions import Sessions


@pytest.fixture(scope="module")
def tokenizer(little_run: Path) -> Any:
    return bg.load(little_run, device="cpu").tokenizer


FRAMES = """async () => {
  const overlay = document.querySelector('.stage .overlay');
  const box = overlay.getBoundingClientRect();
  const times = [];
  for (let i = 0; i < 120; i++) {
    const at = { clientX: box.left + 150 + 4.1 * i, clientY: box.top + 120 + 3.7 * i, bubbles: true };
    const began = performance.now();
    overlay.dispatchEvent(new PointerEvent('pointermove', at));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b);
}"""

ENTER = """async () => {
  const field = document.querySelector('textarea');
  field.focus();
  const began = performance.now();
  const done = new Promise((finish) => new MutationObserver((_, observer) => {
    if (document.querySelector('[aria-busy]')) return;
    if (!document.querySelector('.stage[aria-label*="128 rows"]')) return;
    if (document.querySelector('.stale') || !document.querySelector('.readout .word')) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => finish(performance.now() - began), 0));
  }).observe(document.body, { subtree: true, childList: true, attributes: true }));
  field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  return await done;
}"""


@pytest.fixture(scope="module")
def large(tokenizer: Any) -> Iterator[Served]:
    n = tokenizer.vocab_size
    wide = {"context_length": 512, "n_layers": 12, "n_heads": 12, "d_model": 192, "init_std": 0.15}
    demo = {"context_length": 256, "n_layers": 4, "d_model": 128, "init_std": 0.15}
    models = {"large": network(n, **wide), "demo": network(n, **demo)}
    with serving(Sessions({name: Model(net, tokenizer) for name, net in models.items()})) as served:
        yield served


def text_of(length: int) -> str:
    return ("the cat sat on the mat . the dog sat on the log . " * 20)[:length]


@pytest.mark.slow
def test_moving_the_cursor_over_512_tokens_stays_under_50_ms(
    browser: Any, large: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    with visit(browser, large.host) as tab:
        tab.go(view="head", q__model="large", q__text=text_of(512), s__layer=5, s__head=7)
        times = tab.page.evaluate(FRAMES)
    with capsys.disabled():
        print(f"\n512 x 512: frame median {times[60]:.1f} ms, 95 % under {times[114]:.1f} ms")
    assert times[60] < 50


@pytest.mark.slow
def test_from_enter_to_picture(
    browser: Any, large: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    with visit(browser, large.host) as tab:
        tab.go(view="head", q__model="demo", q__text="the cat")
        took = []
        for start in (1, 2, 3):  # other texts, so that nothing was asked before
            text = text_of(128 + start)[start:]
            tab.page.evaluate("(t) => { document.querySelector('textarea').value = t; }", text)
            took.append(tab.page.evaluate(ENTER))
    with capsys.disabled():
        print(f"\n128 tokens, 4 layers x 4 heads: Enter to picture {min(took):.0f} ms")
    assert min(took) < 2000  # alone on two cores it is far less; a machine may be busy
