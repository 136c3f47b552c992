"""What encoders on torch share: loading, threads, precision, the hash of weights, batches that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from isthmus._optional import need, offline
from isthmus.devices import half_type, unless_out_of_memory
from isthmus.encoders.once import Pending, launched
from isthmus.errors import BadFile
from isthmus.types import Matrix

Item = TypeVar("Item")
HUB_SECONDS = 10  # until the hub counts as out of reach
SHOWN = 300  # characters of another library's error


def from_hub(name: str, load: Callable[..., Any], library: str = "transformers", hub_name: str | None = None) -> Any:
    """Load by ``load(name, local_files_only=…)``: a folder, what was downloaded before, or (unless offline) the hub.

    Whether the hub can be reached and has the model is asked first: the library itself would try for half a minute.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        name = str(folder)  # the libraries do not know ~
    elif name.startswith((".", "/", "~")):
        raise BadFile(f"There is no folder {name!r}. Check the path.")
    try:
        return load(name, local_files_only=True)
    except Exception as error:  # noqa: BLE001 - the hub, the file system and torch each have errors of their own
        if folder.is_dir():
            raise BadFile(f"{library} cannot load {name!r}: {_plain(error)} Check what the folder holds.") from None
        if offline():
            raise BadFile(
                f"{library} cannot load {name!r}: there is no such folder, and no such model was downloaded before. "
                "Offline is set: check the path, or download the model first."
            ) from None
    _ask_hub(hub_name or name)
    try:
        return load(name, local_files_only=False)
    except Exception as error:  # noqa: BLE001
        raise BadFile(f"{library} cannot load {name!r}: {_plain(error)} Check the name or path.") from None


def check_hub_offline(library: str, name: str) -> None:
    """Raise if isthmus is offline and the hub's client is not, for a library that has no argument for it."""
    if offline() and not need("huggingface_hub.constants", extra="hf").HF_HUB_OFFLINE:
        raise BadFile(
            f"Offline is set, but {library} reads HF_HUB_OFFLINE only, when Python starts. Set HF_HUB_OFFLINE=1 to "
            f"load {name!r} from the downloaded files."
        )


def no_remote_code(kind: Any) -> Callable[..., Any]:
    """Return the ``from_pretrained`` of a class of transformers so that it runs no code that comes with a model.

    Left alone, transformers asks on the terminal whether to run it.
    """
    return partial(kind.from_pretrained, trust_remote_code=False)


def _ask_hub(name: str) -> None:
    """Raise a clear error if the hub does not have a model or cannot be reached."""
    hub = need("huggingface_hub", extra="hf")
    try:
        hub.HfApi().model_info(name, timeout=HUB_SECONDS)
    except (hub.errors.RepositoryNotFoundError, hub.errors.HFValidationError):
        raise BadFile(
            f"There is no folder {name!r}, and the Hugging Face hub has no model of this name. Check the name or path. "
            "A private model needs a token: hf auth login."
        ) from None
    except hub.errors.GatedRepoError:
        raise BadFile(
            f"The model {name!r} asks for its conditions to be accepted on its page. Then: hf auth login."
        ) from None
    except Exception as error:  # noqa: BLE001 - the hub has errors of several libraries
        raise BadFile(
            f"There is no folder {name!r}, it was not downloaded before, and the Hugging Face hub cannot be reached "
            f"({_plain(error)}). Check the connection, or name a folder that holds the model."
        ) from None


def _plain(error: Exception) -> str:
    """Return the first sentences of an error: libraries add advice about their own calls."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"


def in_precision(model: Any, precision: str, device: str) -> Any:
    """Convert a model to a precision of ``Settings`` and move it to a device."""
    return model.to(getattr(need("torch", extra="hf"), torch_type(precision, device))).to(device)


def torch_type(precision: str, device: str) -> str:
    """Return the type of torch for a precision; ``auto`` is full on a processor and half on a GPU.

    >>> torch_type("auto", "cpu"), torch_type("auto", "cuda:1"), torch_type("half", "mps"), torch_type("float16", "cpu")
    ('float32', 'bfloat16', 'float16', 'float16')
    """
    if precision == "auto":
        precision = "full" if device.partition(":")[0] == "cpu" else "half"
    return {"full": "float32", "half": half_type(device)}.get(precision, precision)


def weights(module: Any) -> Iterator[bytes]:
    """Yield the name and the bytes of every weight of a torch module."""
    for name, tensor in sorted(module.state_dict().items()):
        yield name.encode()
        yield tensor.detach().cpu().float().numpy().tobytes()


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Limit torch to ``count`` threads inside the block."""
    torch = need("torch", extra="st")
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_blas_thread() -> AbstractContextManager[object]:
    """Compute NumPy's matrix products in one thread inside the block.

    After a product, OpenBLAS's other threads wait for the next one at full speed, and slow a model that runs meanwhile.
    """
    limit: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limit


@cache
def _blas() -> Any:
    return need("threadpoolctl", extra="hf").ThreadpoolController()


def fetched_later(rows: Any) -> Pending:
    """Copy a tensor ``(n, d)`` to float32 in memory; a GPU does it when it gets there, and the result waits for it."""
    torch = need("torch", extra="hf")
    if rows.device.type != "cuda":
        here: Matrix = rows.float().cpu().numpy()
        return lambda: here
    copied = torch.empty(rows.shape, dtype=torch.float32, pin_memory=True)  # pinned: the copy does not block
    copied.copy_(rows, non_blocking=True)
    done = torch.cuda.Event()
    done.record(torch.cuda.current_stream(rows.device))

    def fetch() -> Matrix:
        done.synchronize()
        found: Matrix = copied.numpy().copy()
        return found

    return fetch


@dataclass(slots=True, eq=False)
class BatchLimit:
    """The size of batches that fit into a device's memory: halved whenever one does not, and kept for the next."""

    size: int

    def run(self, encode: Callable[[Sequence[Item]], Matrix], items: Sequence[Item]) -> Matrix:
        """Encode the items in batches that fit, ``(n, d)``."""
        return self.launch(launched(encode), items)()

    def launch(self, start: Callable[[Sequence[Item]], Pending], items: Sequence[Item]) -> Pending:
        """Start the items in batches that fit; memory is reserved when a batch starts."""
        batches: list[Pending] = []
        first = 0
        while first < len(items):
            batch = items[first : first + self.size]
            smallest = "One input alone" if len(batch) == 1 else None
            found = unless_out_of_memory(partial(start, batch), smallest)
            if found is None:
                self.size = max(1, len(batch) // 2)
                continue
            batches.append(found)
            first += len(batch)
        return lambda: np.concatenate([rows() for rows in batches])
