"""Each transform worked out another way, and back; what does not fit, told at once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.formats.load_report import grouped
from budgerigar.formats.weight_rules import (
    AS_IS,
    FIRST_ROWS,
    ONLY_ROW,
    TRANSPOSED,
    Interleaved,
    Part,
    Rule,
    Transform,
    fill,
    give,
    match,
    shapes_of,
)
from budgerigar.layers.elementwise import rotate


class Held:
    """Tensors in memory."""

    where = "the test's tensors"

    def __init__(self, **tensors: Tensor) -> None:
        self.tensors = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
        self.read: list[str] = []

    def names(self) -> Iterable[str]:
        return self.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.tensors[name].shape)

    def dtype(self, name: str) -> str:
        return {torch.float32: "F32", torch.float16: "F16"}.get(self.tensors[name].dtype, "I8")

    def get(self, name: str) -> Tensor:
        self.read.append(name)
        return self.tensors[name]


def pair(**shapes: tuple[int, ...]) -> nn.Module:
    """A network of nothing but parameters."""
    network = nn.Module()
    for name, shape in shapes.items():
        network.register_parameter(name, nn.Parameter(torch.zeros(shape)))
    return network


# -- transforms ------------------------------------------------------------------------------------
def test_transposed_is_what_a_convolution_of_width_one_keeps() -> None:
    """GPT-2's x @ W + b is a linear layer of ours with W transposed."""
    x, theirs = torch.randn(5, 3), torch.randn(3, 7)
    ours = TRANSPOSED.read(theirs, (7, 3))
    assert torch.allclose(nn.functional.linear(x, ours), x @ theirs, atol=1e-6)
    assert TRANSPOSED.fits((3, 7), (7, 3))
    assert not TRANSPOSED.fits((7, 3), (7, 3))


def test_parts_of_a_fused_matrix() -> None:
    """Queries of 4 rows, keys and values of 2 each: what one product and a split would give."""
    x, fused = torch.randn(6, 3), torch.randn(8, 3)
    wanted = nn.functional.linear(x, fused).split([4, 2, 2], dim=-1)
    for index, rows in enumerate((4, 2, 2)):
        part = Part(index, (4, 2, 2))
        assert part.fits((8, 3), (rows, 3))
        assert not part.fits((8, 3), (rows + 1, 3))
        assert not part.fits((9, 3), (rows, 3))
        own = part.read(fused, (rows, 3))
        assert torch.allclose(nn.functional.linear(x, own), wanted[index], atol=1e-6)


@pytest.mark.parametrize(("heads", "width"), [(1, 8), (3, 4), (2, 6)])
def test_interleaved_rotary_pairs_become_half_split_ones(heads: int, width: int) -> None:
    """Scores of rotated queries and keys are the same: theirs turn (2i, 2i + 1), ours (i, i + E/2)."""
    x = torch.randn(5, 12)
    angles = torch.arange(5)[:, None] * torch.tensor([0.7**i for i in range(width // 2)])
    scores = []
    weights = {name: torch.randn(heads * width, 12) for name in ("query", "key")}
    turned = {}
    for name, weight in weights.items():  # theirs: as complex numbers
        values = (x @ weight.T).view(5, heads, width // 2, 2).contiguous()
        turns = torch.polar(torch.ones_like(angles), angles)[:, None]
        turned[name] = torch.view_as_real(torch.view_as_complex(values) * turns).flatten(2)
    scores.append(torch.einsum("the,she->hts", turned["query"], turned["key"]))
    for name, weight in weights.items():
        ours = Interleaved(heads).read(weight, tuple(weight.shape))
        values = (x @ ours.T).view(1, 5, heads, width).transpose(1, 2)
        turned[name] = rotate(values, angles.cos()[None, None], angles.sin()[None, None])[0]
    scores.append(torch.einsum("hte,hse->hts", turned["query"], turned["key"]))
    assert torch.allclose(scores[0], scores[1], atol=1e-4)


def test_interleaved_biases_move_with_their_rows() -> None:
    weight, bias = torch.randn(8, 3), torch.arange(8.0)
    whole = torch.cat([weight, bias[:, None]], 1)
    moved = Interleaved(2).read(whole, (8, 4))
    assert torch.equal(Interleaved(2).read(bias, (8,)), moved[:, 3])
    assert Interleaved(2).read(bias, (8,)).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_padded_vocabularies_lose_the_rows_that_stand_for_nothing() -> None:
    table = torch.randn(9, 4)
    assert FIRST_ROWS.fits((9, 4), (7, 4))
    assert not FIRST_ROWS.fits((6, 4), (7, 4))
    assert not FIRST_ROWS.fits((9, 5), (7, 4))
    assert torch.equal(FIRST_ROWS.read(table, (7, 4)), table[:7])
    assert FIRST_ROWS.words((9, 4), (7, 4)) == "first 7 of 9 rows (padded vocabulary)"
    assert FIRST_ROWS.words((7, 4), (7, 4)) == "as is"


def test_a_matrix_of_one_row() -> None:
    assert torch.equal(ONLY_ROW.read(torch.tensor([[1.0, 2.0]]), (2,)), torch.tensor([1.0, 2.0]))
    assert not ONLY_ROW.fits((2,), (2,))


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (AS_IS, (3, 4)), (TRANSPOSED, (3, 4)), (Interleaved(2), (8, 3)), (ONLY_ROW, (5,)),
        (FIRST_ROWS, (5, 2)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_the_way_back(transform: Transform, shape: tuple[int, ...]) -> None:
    ours = torch.randn(shape)
    theirs = transform.write(ours)
    assert transform.fits(tuple(theirs.shape), shape)
    assert torch.equal(transform.read(theirs, shape), ours)


# -- filling and giving ----------------------------------------------------------------------------
RULES = [
    Rule("a", ("w.a", "a")),
    Rule("b", ("w.fused",), Part(0, (2, 3), TRANSPOSED)),
    Rule("c", ("w.fused",), Part(1, (2, 3), TRANSPOSED)),
]


def shapes() -> nn.Module:
    return pair(a=(2,), b=(2, 4), c=(3, 4))


def test_fill_and_give_undo_each_other() -> None:
    held = Held(w__a=torch.randn(2), w__fused=torch.randn(4, 5))
    network = shapes()
    report = fill(network, RULES, held)
    assert [(e.ours, e.theirs) for e in report.entries] == [
        ("a", "w.a"), ("b", "w.fused"), ("c", "w.fused"),
    ]  # fmt: skip
    assert report.entries[1].transform == "transposed (Conv1D), then part 1 of 2 (fused QKV)"
    given = give(network, RULES)
    assert given.keys() == held.tensors.keys()
    assert all(torch.equal(given[name], held.tensors[name]) for name in given)


def test_a_tensor_that_needs_no_change_is_not_copied() -> None:
    held = Held(w__a=torch.randn(2), w__fused=torch.randn(4, 5))
    network = shapes()
    fill(network, RULES, held)
    assert network.get_parameter("a").data_ptr() == held.tensors["w.a"].data_ptr()


def test_all_that_does_not_fit_is_told_at_once_and_nothing_is_read() -> None:
    held = Held(w__fused=torch.randn(5, 5), spare=torch.randn(1), known=torch.randn(1))
    known = {"known": "it is always the same"}.get
    with pytest.raises(UserError) as caught:
        fill(shapes(), RULES, held, known)
    message = str(caught.value)
    for words in (
        "w.a is missing (it fills a)",
        "w.fused is (5, 5), not (4, 5)",
        "spare (1,) is not part of this model",
        "the test's tensors",
    ):
        assert words in message
    assert "known" not in message
    assert not held.read


def test_names_of_the_same_numbers_must_agree() -> None:
    """A tied model that ships its head too is whole; one whose head differs is not tied."""
    a, fused = torch.randn(2), torch.randn(4, 5)
    report = fill(shapes(), RULES, Held(w__a=a, a=a.clone(), w__fused=fused))
    assert report.tied == [("a", "w.a")]
    assert "a: the same numbers as w.a" in report.text()
    with pytest.raises(UserError, match=r"a differs from w\.a"):
        fill(shapes(), RULES, Held(w__a=a, a=a + 1, w__fused=fused))


def test_whole_numbers_are_no_weights() -> None:
    held = Held(w__a=torch.zeros(2, dtype=torch.int8), w__fused=torch.randn(4, 5))
    with pytest.raises(UserError, match="quantised"):
        fill(shapes(), RULES, held)


def test_what_a_model_lacks_is_given_as_what_changes_nothing() -> None:
    network = pair(b=(2, 4))
    rules = [Rule("b", ("b",)), Rule("norm.weight", ("n",)), Rule("norm.bias", ("m",))]
    given = give(network, rules, {"b": (2, 4), "norm.weight": (4,), "norm.bias": (4,)})
    assert torch.equal(given["n"], torch.ones(4))
    assert torch.equal(given["m"], torch.zeros(4))


def test_match_reads_no_weights() -> None:
    held = Held(w__a=torch.randn(2), w__fused=torch.randn(4, 5))
    assert not match(shapes_of(shapes()), RULES, held).problems
    assert not held.read


def test_layers_that_are_alike_are_one_line() -> None:
    lines = [f"m.layers.{i}.norm.weight is missing" for i in (0, 1, 2, 5)]
    assert grouped([*lines, "m.norm.weight is missing"]) == [
        "m.layers.0–2,5.norm.weight is missing",
        "m.norm.weight is missing",
    ]
    tied = [f"decoder.{i}.q ← block.{i}.layer.0.q" for i in range(3)]
    assert grouped(tied) == ["decoder.0–2.q ← block.0–2.layer.0.q"]
    assert grouped(["a.1.b is a.2.b"]) == ["a.1.b is a.2.b"]
