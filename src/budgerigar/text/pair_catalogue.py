"""Pairs by name: the catalogue's corpora in either direction, and the generated ones."""

from __future__ import annotations

from pathlib import Path

from budgerigar.errors import UserError
from budgerigar.text.catalogue import catalogue, entry, fetch
from budgerigar.text.pair_files import PairFiles

GENERATED = "stories"
HELD_OUT_PAIRS = 500
_GENERATED_LANGUAGES = ("zh", "en")
# Two-letter codes by which files are often named, and three-letter ones of the same languages.
_TWO_LETTERS = """
ar bg bn ca cs da de el en es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko lt
lv mk ml mn mr ms my nb ne nl nn no pa pl pt ro ru sk sl sq sr sv sw ta te th tl tr uk ur uz vi zh
"""
_CODES = frozenset(_TWO_LETTERS.split())
_ALIASES = {"cmn": "zh", "zho": "zh", "chi": "zh", "eng": "en", "deu": "de", "ger": "de"}
_ALIASES |= {"fra": "fr", "fre": "fr", "spa": "es", "jpn": "ja", "kor": "ko", "rus": "ru"}


def language_code(name: str | None) -> str | None:
    """ "zh" for "zh-CN", "ZH" and "cmn"; unknown names stay as they are, in small letters."""
    if name is None:
        return None
    code = name.strip().lower().replace("_", "-").split("-")[0]
    return _ALIASES.get(code, code)


def guess_languages(files: PairFiles) -> tuple[str | None, str | None]:
    """(source, target) languages by the names of the files, such as train.de and train.en."""

    def of(path: Path) -> str | None:
        for part in reversed(path.name.lower().split(".")[1:]):
            code = language_code(part)
            if code in _CODES:
                return code
        return None

    if files.source:
        return of(files.source[0]), of(files.target[0])
    if files.columns:
        codes = [language_code(column) for column in files.columns]
        return codes[0] if codes[0] in _CODES else None, codes[1] if codes[1] in _CODES else None
    return None, None


def choose_direction(
    name: str, languages: tuple[str, ...], source: str | None, target: str | None
) -> tuple[str, str]:
    """(source, target) of a corpus that has `languages`; by default the first into the second.

    One language alone leaves the other to the corpus. Raises `UserError` for a language that it
    does not have, and for the same on both sides.
    """
    source, target = language_code(source), language_code(target)
    for language in (source, target):
        if language is not None and language not in languages:
            raise UserError(
                f"{name} has no {language!r}. It has: {', '.join(languages)}. Choose two with "
                "--source-language and --target-language."
            )
    if source is None:
        source = next(one for one in languages if one != target)
    if target is None:
        target = next(one for one in languages if one != source)
    if source == target:
        raise UserError(f"{source} on both sides: a translation needs two languages.")
    return source, target


def pair_corpora() -> list[str]:
    """The names of the catalogue's corpora of pairs."""
    return [name for name, one in catalogue().items() if one.kind == "pairs"]


def fetch_pairs(
    name: str,
    source_language: str | None = None,
    target_language: str | None = None,
    cache: str | Path | None = None,
) -> tuple[PairFiles, PairFiles | None, PairFiles | None]:
    """(training, validation, test) pairs of a catalogue's corpus, downloaded if need be, in the
    asked direction; None for a split that it does not have."""
    wanted = entry(name)
    if wanted.kind != "pairs":
        raise UserError(
            f"{name} is running text, not sentence pairs. Corpora of pairs: "
            f"{', '.join([*pair_corpora(), GENERATED])}."
        )
    roles = {language: role for role, language in wanted.languages.items()}
    source, target = choose_direction(name, tuple(roles), source_language, target_language)
    files = fetch(name, cache).files

    def split(prefix: str) -> PairFiles | None:
        sides = [files.get(prefix + roles[language]) for language in (source, target)]
        return PairFiles((sides[0],), (sides[1],)) if sides[0] and sides[1] else None

    train = split("")
    assert train is not None
    return train, split("validation."), split("test.")


def find_pairs(
    name_or_file: str | Path,
    source_language: str | None = None,
    target_language: str | None = None,
    columns: tuple[str, str] | None = None,
) -> PairFiles:
    """Training pairs by the catalogue's name, or by the name of a file that holds both sides.

    For `--mix`: a file wins over a name.
    """
    path = Path(name_or_file)
    if path.exists() or str(name_or_file) not in catalogue():
        if not path.exists():
            raise UserError(
                f"{name_or_file}: there is no such file, and the catalogue has no such corpus of "
                f"pairs. It has: {', '.join(pair_corpora())}."
            )
        return PairFiles(pairs=(path,), columns=columns)
    return fetch_pairs(str(name_or_file), source_language, target_language)[0]


def generated_pairs(
    n_pairs: int,
    seed: int = 0,
    source_language: str | None = None,
    target_language: str | None = None,
    n_validation: int = HELD_OUT_PAIRS,
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(training, validation) pairs of the generated stories, Chinese into English by default."""
    from budgerigar.text.pairs import sentence_pairs

    source, _ = choose_direction(GENERATED, _GENERATED_LANGUAGES, source_language, target_language)
    splits = [
        [(pair.source, pair.target) for pair in sentence_pairs(n, seed, split)]
        for n, split in ((n_pairs, "train"), (n_validation, "validation"))
    ]
    if source == "en":
        splits = [[(english, chinese) for chinese, english in pairs] for pairs in splits]
    return splits[0], splits[1]
