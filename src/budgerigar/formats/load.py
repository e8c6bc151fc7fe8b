"""`load_any`: whatever a path or a name means, as a model that is ready to run. The content decides."""

from __future__ import annotations

from pathlib import Path

from budgerigar.errors import UserError
from budgerigar.formats.names import find_named, near_model
from budgerigar.formats.run import Loaded, load_model, resolve_run


def load_any(path: str | Path = "last", device: str = "cpu") -> Loaded:
    """A run's folder (a path, a name under runs/, "last"), a Hugging Face folder, a GGUF file, one of
    llama2.c's, or a name: of the catalogue's models or of Hugging Face's hub (`names.find_named`).

    Raises:
        UserError: there is nothing of that name, or a file of it is missing, damaged or does not fit.
    """
    from budgerigar.formats.hugging_face import is_hugging_face, load_hugging_face

    path = find_named(path) or path
    if isinstance(path, str | Path) and str(path).strip() and Path(path).is_file():
        return _load_file(Path(path), device)
    if str(path).endswith((".gguf", ".bin")) and not Path(path).exists():
        raise UserError(f"There is no file {path}.{near_model(Path(path).stem)}")
    try:
        folder = resolve_run(path)
    except UserError as error:
        raise UserError(f"{error}{near_model(str(path))}") from None
    return (
        load_hugging_face(folder, device) if is_hugging_face(folder) else load_model(folder, device)
    )


def _load_file(path: Path, device: str) -> Loaded:
    from budgerigar.formats.gguf_file import is_gguf
    from budgerigar.formats.llama2c import load_llama2c, read_header

    if is_gguf(path) or path.suffix == ".gguf":
        from budgerigar.formats.gguf_model import load_gguf

        return load_gguf(path, device)
    if read_header(path) is not None:
        return load_llama2c(path, device)
    raise UserError(_not_a_folder(path))


def _not_a_folder(path: Path) -> str:
    if path.suffix == ".safetensors" or path.name == "config.json":
        return f"{path} is one file of a model: give its folder, {path.parent}"
    return (
        f"{path} is a file, and no model that is known here: give the folder of a run or a model, a "
        ".gguf file or llama2.c's .bin"
    )
