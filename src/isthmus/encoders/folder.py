"""An encoder's folder: ``encoder.toml`` describes the files and how they are used; every file has a checksum.

It describes its own towers, ``[text]`` and ``[image]``, or a model on another encoder's towers, ``[fusion]``. The text
tower can be that of an embedded encoder, ``[text] encoder = "mini"``: then texts have the same vectors in both. The
image tower can be CLIP's with a projection, ``[clip]``, which is not in the folder.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeVar, get_type_hints

from isthmus.budget import DESCRIPTION_BYTES, MODEL_BYTES
from isthmus.encoders.locations import EMBEDDED, SHARED_TEXTS
from isthmus.encoders.tower import external_files
from isthmus.errors import BadFile
from isthmus.files import digest_regular, read_regular
from isthmus.registry import suggestion

DESCRIPTION = "encoder.toml"
RELATIVE = "../"  # how the name of a folder beside this one starts
CHOICES = {
    "layout": ("nhwc", "nchw"),
    "dtype": ("uint8", "float32"),
    "fit": ("squash", "crop", "cover"),
    "resample": ("bicubic", "bilinear", "lanczos"),
    "pool": ("none", "mean", "first"),
    "sides": (1, 2),
}
Done = TypeVar("Done")
Section = TypeVar("Section", "TextSection", "SharedTextSection", "ImageSection", "ClipSection", "FusionSection")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSection:
    """The table ``[text]``."""

    model: str
    tokenizer: str
    length: int  # tokens that the model reads at once, including those around each passage
    output: str = ""  # default: the first output
    tokens: str = "tokens"  # names of the model's inputs, int64 (n, tokens)
    mask: str = "mask"
    types: str = ""  # a third input of zeros, which some exports require
    pad: int = 0  # the token that fills up a batch; its mask is 0
    pool: str = "none"  # of an output (n, tokens, d): the mean under the mask, or the first token
    query: str = ""  # prefix of every query
    document: str = ""  # prefix of every passage of a document


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTextSection:
    """The table ``[text]`` of an encoder that uses the text tower of another."""

    encoder: str  # the name of an embedded encoder, or a folder relative to this one


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipSection:
    """The table ``[clip]``: CLIP's image tower, from wherever it is installed, and a projection in this folder."""

    projection: str
    size: int = 224
    fit: str = "squash"  # CLIP was trained on crops; squashing shows all of a picture, and the projection expects it
    resample: str = "bicubic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSection:
    """The table ``[image]``."""

    model: str
    size: int
    layout: str = "nhwc"
    dtype: str = "uint8"
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)  # of RGB in 0 … 1; for float32 only
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    fit: str = "squash"
    resample: str = "bicubic"
    output: str = ""
    pixels: str = "pixels"


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionSection:
    """The table ``[fusion]``: what was trained on top of another encoder's towers."""

    towers: str  # the name of an embedded encoder, or a folder relative to this one
    identity: str  # of the towers
    text: str  # the tensors at which they are cut: states of tokens (n, t, d), cells of pictures (n, channels, h, w)
    image: str
    sides: int  # 2: words about the text and words about the image are read separately; 1: together
    echo: tuple[float, float] = (0.0, 0.0)  # weight of the other half if all words are about the text, the image
    match_echo: tuple[float, float] = (0.0, 0.0)  # the same in the matcher

    @property
    def models(self) -> list[str]:
        """The model files."""
        return ["document.onnx", "query.onnx", "match.onnx", *(["choose.onnx"] if self.sides > 1 else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The content of ``encoder.toml``, checked against the files in its folder."""

    folder: Path
    name: str
    dim: int
    identity: str
    text: TextSection | None
    image: ImageSection | None
    clip: ClipSection | None = None
    fusion: FusionSection | None = None
    shared: Description | None = None  # of the encoder whose text tower this one uses
    files: Mapping[str, Any] = field(default_factory=dict)  # checksums, as ``encoder.toml`` has them
    contents: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)  # read, not yet loaded

    @property
    def owner(self) -> Description:
        """The description of the folder that holds the text tower: this one, or that of another encoder."""
        return self.shared or self

    @property
    def identities(self) -> dict[str, str]:
        """A hash for each part, of everything that its vectors depend on: the settings and files of its tower."""
        if self.fusion is not None:
            return {}
        text, image, found = self.text, self.image or self.clip, {}
        files = {text.model, text.tokenizer} if text and not self.shared else set()
        if image is not None:
            found["image"] = self._identity(image, other=files)
        if text is not None:
            file = image.model if isinstance(image, ImageSection) else image.projection if image else ""
            found["text"] = self.shared.identities["text"] if self.shared else self._identity(text, other={file})
        return found

    def _identity(self, section: object, *, other: set[str]) -> str:
        """Hash a tower's settings and all files but those of the other tower, which leaves external weights in."""
        files = sorted((name, str(sha256)) for name, sha256 in self.files.items() if name not in other)
        return hashlib.sha256(repr((self.dim, section, files)).encode()).hexdigest()

    def read(self, name: str) -> bytes:
        """Return the verified content of a file, so that what is loaded is what was verified."""
        kept = self.contents.pop(name, None)
        return _verified(self.folder / DESCRIPTION, name, self.files) if kept is None else kept


def describe(folder: Path) -> Description:
    """Read ``encoder.toml`` and verify the checksum of every file it uses."""
    path = folder / DESCRIPTION
    try:
        written = read_regular(path, DESCRIPTION_BYTES)
        table = tomllib.loads(written.decode())
    except FileNotFoundError:
        why = f"has no {DESCRIPTION}, so it is not an encoder" if folder.is_dir() else "is not a folder"
        raise BadFile(f"{folder} {why}. Check the path.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    _check_names(path, table, {"name", "dim", "text", "image", "clip", "fusion", "files"})
    shared = _shared(path, table)
    own = _section(path, "text", table, TextSection) if shared is None else None
    text = own or (shared.text if shared else None)
    image, clip = _section(path, "image", table, ImageSection), _section(path, "clip", table, ClipSection)
    fusion = _section(path, "fusion", table, FusionSection)
    _check_tables(path, {"text": text, "image": image, "clip": clip, "fusion": fusion})
    name, dim = _value(path, "name", table.get("name"), str), _value(path, "dim", table.get("dim"), int)
    if min(dim, text.length if text else 1, *(each.size for each in (image, clip) if each)) < 1:
        raise BadFile(f"{path}: dim, length and size are whole numbers of at least 1.")
    if shared is not None and shared.dim != dim:
        raise BadFile(f"{path}: dim is {dim}, and the vectors of {shared.name} have {shared.dim} numbers.")
    models = [*([own.model] if own else []), *([image.model] if image else []), *(fusion.models if fusion else [])]
    files = _value(path, "files", table.get("files"), dict)
    others = [*([own.tokenizer] if own else []), *([clip.projection] if clip else [])]
    contents = _verify(path, [*models, *others], files)
    for model in models:
        _check_external(path, model, contents[model], files)
    # it includes the checksums, so it identifies the files too; not those of another encoder
    identity = hashlib.sha256(written + (shared.identities["text"].encode() if shared else b"")).hexdigest()
    return Description(
        folder=folder,
        name=name,
        dim=dim,
        identity=identity,
        text=text,
        image=image,
        clip=clip,
        fusion=fusion,
        shared=shared,
        files=files,
        contents=contents,
    )


def _check_tables(path: Path, tables: Mapping[str, object]) -> None:
    found = [f"[{name}]" for name, section in tables.items() if section is not None]
    if "[fusion]" in found and len(found) > 1:
        raise BadFile(
            f"{path} has [fusion], which names its towers, and its own [text] or [image]. Remove one of the two."
        )
    if "[image]" in found and "[clip]" in found:
        raise BadFile(f"{path} has [image] and [clip]: two image towers. Remove one of the two.")
    if not found:
        raise BadFile(f"{path} has neither [text] nor [image]. Add one of them, or both.")


def _shared(path: Path, table: Mapping[str, Any]) -> Description | None:
    """Return the description of the encoder whose text tower is used, if ``[text]`` names one."""
    text = table.get("text")
    if not isinstance(text, dict) or "encoder" not in text:
        return None
    section = _section(path, "text", table, SharedTextSection)
    if section is None:
        return None
    if section.encoder in SHARED_TEXTS:
        return describe(EMBEDDED[section.encoder])
    if not section.encoder.startswith(RELATIVE):
        raise BadFile(
            f"{path}: text.encoder is {section.encoder!r}; it must be one of {SHARED_TEXTS}, or a folder beside this "
            f"one, such as {RELATIVE}mini."
        )
    below = describe(path.parent / section.encoder)
    if below.text is None:
        raise BadFile(f"{path}: text.encoder is {section.encoder!r}, which has no text tower.")
    return below.owner


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, as ``sha256sum`` prints it."""
    return digest_regular(path).hex()


def _verify(path: Path, used: list[str], files: Mapping[str, Any]) -> dict[str, bytes]:
    """Verify every file; return the content of those that are used."""
    contents = {}
    for name in dict.fromkeys([*used, *files]):
        if name not in files:
            raise BadFile(f"{path} has no checksum of {name}. Add {name!r} = '<sha256>' to its [files].")
        if name in used:
            contents[name] = _verified(path, name, files)
        else:
            _compare(path, name, files, _read(path, name, checksum))
    return contents


def _verified(path: Path, name: str, files: Mapping[str, Any]) -> bytes:
    content = _read(path, name, lambda place: read_regular(place, MODEL_BYTES))
    _compare(path, name, files, hashlib.sha256(content).hexdigest())
    return content


def _read(path: Path, name: str, task: Callable[[Path], Done]) -> Done:
    place = _inside(path, name)
    try:
        return task(place)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or error
        raise BadFile(f"{path.parent / name} cannot be read: {why}. Download the encoder again.") from None


def _compare(path: Path, name: str, files: Mapping[str, Any], found: str) -> None:
    if found != files[name]:
        raise BadFile(
            f"{path.parent / name} is damaged, or is not the file that {DESCRIPTION} describes: its checksum is "
            f"{found[:12]}… instead of {str(files[name])[:12]}…. Download the encoder again."
        )


def _inside(path: Path, name: str) -> Path:
    """Return the resolved path of a file of the folder; reject names and links that lead out of it."""
    paths = (PurePosixPath(name), PureWindowsPath(name))
    outside = any(each.is_absolute() or each.drive or ".." in each.parts for each in paths)
    try:
        place, folder = (path.parent / name).resolve(), path.parent.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; a NUL
        raise BadFile(f"{path.parent / name} cannot be read: {error}. Download the encoder again.") from None
    if outside or not place.is_relative_to(folder):
        raise BadFile(
            f"{path} names {name!r}, which is not inside its folder. Copy the file there, and name it without '..' or "
            "links that lead out."
        )
    return place


def _check_external(path: Path, model: str, content: bytes, files: Mapping[str, Any]) -> None:
    """Reject weights in other files that have no checksum."""
    try:
        locations = external_files(content)
    except BadFile as error:
        raise BadFile(f"{path.parent / model}: {error}") from None
    for location in locations:
        name = (PurePosixPath(model).parent / location).as_posix()
        _inside(path, name)
        if name not in files:
            raise BadFile(
                f"{path.parent / model} keeps weights in {name!r}, and {path} has no checksum of it. Add {name!r} = "
                "'<sha256>' to its [files]."
            )


def _section(path: Path, name: str, table: Mapping[str, Any], kind: type[Section]) -> Section | None:
    if name not in table:
        return None
    given = _value(path, name, table[name], dict)
    _check_names(path, given, {f.name for f in fields(kind)}, f" of [{name}]")
    hints = get_type_hints(kind)
    values = {}
    for each in fields(kind):
        if each.name in given:
            values[each.name] = _value(path, f"{name}.{each.name}", given[each.name], hints[each.name])
        elif each.default is MISSING:
            raise BadFile(f"{path}: [{name}] has no {each.name!r}.")
        if each.name in CHOICES and values.get(each.name, each.default) not in CHOICES[each.name]:
            raise BadFile(
                f"{path}: {name}.{each.name} is {given[each.name]!r}; it must be one of {CHOICES[each.name]}."
            )
    return kind(**values)


def _value(path: Path, name: str, value: Any, kind: Any) -> Any:
    if kind == tuple[float, ...]:
        if isinstance(value, list) and len(value) == 3 and all(type(v) in (int, float) for v in value):
            return tuple(float(v) for v in value)
        raise BadFile(f"{path}: {name} is {value!r}; it must be three numbers, one for each of red, green and blue.")
    if kind == tuple[float, float]:
        if isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) and 0 <= v <= 1 for v in value):
            return tuple(float(v) for v in value)
        raise BadFile(f"{path}: {name} is {value!r}; it must be two numbers from 0 to 1, for text and image.")
    if type(value) is not kind:
        found = "is missing" if value is None else f"is {value!r}"
        words = {str: "text in quotes", int: "a whole number", dict: "a table"}
        raise BadFile(f"{path}: {name} {found}; it must be {words[kind]}.")
    return value


def _check_names(path: Path, table: Mapping[str, Any], known: set[str], where: str = "") -> None:
    for name in table:
        if name not in known:
            raise BadFile(f"{path}: no setting{where} is called {name!r}. {suggestion(name, known)}")
