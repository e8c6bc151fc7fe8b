from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgerigar.errors import UserError
from budgerigar.text import store as store_module
from budgerigar.text.documents import document_pieces
from budgerigar.text.store import StoreWriter, TokenStore, store_from_documents
from budgerigar.text.tokenizer import Tokenizer
from budgerigar.text.tokenizers import train_tokenizer

TEXT = "the cat sat on the mat\n\nthe dog sat 诗\n\n\nthe end of the cat\n"
TOKENIZERS = {kind: train_tokenizer([TEXT * 3], kind, end=True) for kind in ("character", "bpe")}


def written(folder: Path, tokenizer: Tokenizer, blocks: list[str], how: str) -> TokenStore:
    writer = StoreWriter(folder / "x.tokens", tokenizer, how != "none")
    for piece in document_pieces(blocks, how):
        writer.add(piece)
    writer.finish()
    writer.close()
    return TokenStore.open(folder / "x.tokens")


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("batch", [1, 10, 1 << 20])
@given(text=st.text(st.sampled_from("ab \n诗")), size=st.integers(1, 9))
@settings(deadline=None, max_examples=25)
def test_the_same_in_any_blocks_and_batches(kind: str, batch: int, text: str, size: int) -> None:
    import tempfile

    tokenizer = TOKENIZERS[kind]
    blocks = [text[i : i + size] for i in range(0, len(text), size)]
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "_BATCH_CHARACTERS", batch)
        for how in ("none", "files", "blank-lines"):
            store = written(Path(name), tokenizer, blocks, how)
            ids: list[int] = []
            for document in documents_of(text, how):
                ids += [*tokenizer.encode(document), *([] if how == "none" else [store.end_id])]
            first = [] if how == "none" else [tokenizer.end_id]
            assert store.tokens.tolist() == first + ids
            assert store.n_bytes == len(text.encode())
            assert store.n_characters == len(text)
            assert (
                store.counts.tolist()
                == np.bincount(first + ids, minlength=tokenizer.vocab_size).tolist()
            )


def documents_of(text: str, how: str) -> list[str]:
    from budgerigar.text.documents import split_documents

    return list(split_documents(text, how))


def test_layout_with_documents(tmp_path: Path) -> None:
    tokenizer = TOKENIZERS["character"]
    store = written(tmp_path, tokenizer, [TEXT], "blank-lines")
    assert store.end_id == tokenizer.end_id
    ends = np.flatnonzero(store.tokens == store.end_id)
    assert ends[0] == 0
    assert ends[-1] == store.n_tokens - 1
    assert len(ends) == 4
    assert tokenizer.decode(store.tokens[ends[1] : ends[2]].tolist()) == "the dog sat 诗"
    assert store.tokens.dtype == np.uint16
    assert not store.tokens.flags.writeable


def test_in_memory_as_on_disk(tmp_path: Path) -> None:
    tokenizer = TOKENIZERS["bpe"]
    documents = ["the cat", "诗", "the end"]
    store = store_from_documents(documents, tokenizer)
    on_disk = written(tmp_path, tokenizer, ["\n\n".join(documents)], "blank-lines")
    assert store.tokens.tolist() == on_disk.tokens.tolist()
    assert store.counts.tolist() == on_disk.counts.tolist()
    assert store.n_bytes == len("".join(documents).encode())
    assert store.n_characters == len("".join(documents))


def test_a_cut_file_is_noticed(tmp_path: Path) -> None:
    written(tmp_path, TOKENIZERS["bpe"], [TEXT], "none")
    path = tmp_path / "x.tokens"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UserError, match="damaged"):
        TokenStore.open(path)
