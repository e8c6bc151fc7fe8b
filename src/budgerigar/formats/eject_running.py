"""The text of an ejected file that loads the weights and generates; see eject_template.py."""

RUNNING = '''\
def load(folder: Path = FOLDER) -> Model:
    """The model with its trained weights."""
    weights = load_file(folder / "model.safetensors")
%if tied
    weights["head.weight"] = weights["embedding.tokens.weight"]
%end
    model = Model()
    model.load_state_dict(weights)
    return model.eval()


@torch.inference_mode()
def generate(
    model: Model,
    ids: list[int],
    n: int,
    temperature: float,
    top_k: int,
%if never_seen
    forbidden: Tensor,
%end
    seed: int,
) -> Iterator[int]:
    """Yield `n` more token ids after `ids`, one by one{{until_end}}."""
    generator = torch.Generator().manual_seed(seed)
    window: list[int] = []
    for token in ids:
        window = slide(window, token)
    for _ in range(n):
        logits = model(torch.tensor([window]))[0, -1]  # (V,): only the last position matters
%if never_seen
        logits[forbidden] = float("-inf")
%end
        if temperature == 0:
            token = int(logits.argmax())
        else:
            if top_k:
                logits[logits < logits.topk(min(top_k, V)).values[-1]] = float("-inf")
            weights = torch.softmax(logits / temperature, dim=-1)
            token = int(torch.multinomial(weights, 1, generator=generator))
%if documents
        if token == END:
            return
%elif ends
        if token in ENDS:
            return
%end
        yield token
        window = slide(window, token)


def slide(window: list[int], token: int) -> list[int]:
    """Add a token; a full window first loses its older half."""
    if len(window) == CONTEXT:
        window = window[max(1, CONTEXT // 2) :]
    return [*window, token]


def main() -> None:
    parser = argparse.ArgumentParser(description="Continue a text.")
    parser.add_argument("prompt", nargs="?", default={{default_prompt}})
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the weights are")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    tokenizer = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True  # what is typed is text
    ids = {{first_ids}}tokenizer.encode(options.prompt, add_special_tokens=False).ids{{last_ids}}
%if never_seen
    # pieces that training has never seen: their weights are as random as at the start
    extras = json.loads((options.folder / "tokenizer_extras.json").read_text())
    forbidden = torch.zeros(V, dtype=torch.bool)
    for start, stop in extras["never_seen"]:
        forbidden[start:stop] = True
%end
    settings = (options.tokens, options.temperature, options.top_k{{forbidden}}, options.seed)
    print(options.prompt, end="", flush=True)
    shown = len(tokenizer.decode(ids))
    for token in generate(load(options.folder), list(ids), *settings):
        ids.append(token)
        text = tokenizer.decode(ids)
        if not text.endswith("\\ufffd"):  # a character may come in several tokens
            print(text[shown:], end="", flush=True)
            shown = len(text)
    print(tokenizer.decode(ids)[shown:])


if __name__ == "__main__":
    main()
'''
