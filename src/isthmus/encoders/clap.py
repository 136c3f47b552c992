"""``clap:NAME_OR_PATH``: CLAP of transformers, with a tower for texts and one for sound in one space.

    text   ──▸ RoBERTa's tokenizer, passages of its length                    ──▸ get_text_features
    sound  ──▸ mono, 48 kHz, segments of 10 s, mel spectrogram by its processor ──▸ get_audio_features

Reference: Wu et al., *Large-scale Contrastive Language-Audio Pretraining with Feature Fusion and Keyword-to-Caption
Augmentation*, ICASSP 2023. We deviate: its processor cuts a random window out of a longer sound, and chooses at random
one sound of a batch that counts as longer; here a recording has a vector for every segment of 10 s, and a longer array
is the unit mean of its windows, so the same sound has the same vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.devices import torch_device
from isthmus.encoders.base import Settings, unit
from isthmus.encoders.hf import splitter_of
from isthmus.encoders.hf_files import identity_of, load_weights
from isthmus.encoders.hf_towers import EXTRA, Architecture, HfModel, HfText
from isthmus.encoders.media import MediaEncoder
from isthmus.encoders.once import Pending
from isthmus.encoders.sounds import MediaVectors, seconds, segments
from isthmus.encoders.torch_models import BatchLimit, from_hub, in_precision, no_remote_code, one_blas_thread
from isthmus.errors import BadInput
from isthmus.isolated import recordings
from isthmus.kinds import FileLike
from isthmus.types import Matrix

Waveform = NDArray[np.float32]  # (samples,), mono, in −1 … 1
AT_ONCE = 32  # segments held in memory, 2 MB each
CLAP = Architecture(model="ClapModel")


def open_model(name: str, settings: Settings) -> MediaEncoder:
    """Make an encoder from a model."""
    hub = need("transformers", extra=EXTRA)
    hub.utils.logging.disable_progress_bar()
    settings = replace(settings, device=torch_device(settings.device, EXTRA))
    folder = Path(name).expanduser()
    place = str(folder) if folder.is_dir() else name
    config = from_hub(place, no_remote_code(hub.AutoConfig))
    if config.model_type != "clap":
        raise BadInput(
            f"{name} is a model of type {config.model_type!r}, not of clap. Use hf:NAME for texts and images."
        )
    model = load_weights(place, hub, CLAP)
    tokenizer = from_hub(place, no_remote_code(hub.AutoTokenizer))
    processor = from_hub(place, hub.ClapFeatureExtractor.from_pretrained)
    positions = (
        int(config.text_config.max_position_embeddings) - config.text_config.pad_token_id - 1
    )  # as RoBERTa counts
    splitter = splitter_of(tokenizer, min(positions, int(tokenizer.model_max_length)), name, lower=False)
    identity = identity_of(model, tokenizer, processor, ("clap", splitter.length, "segments 1"))
    running = HfModel(
        in_precision(model, settings.precision, settings.device), settings, BatchLimit(settings.batch_size)
    )
    text = HfText(running, CLAP, splitter, tokenizer.pad_token_id or 0)
    dim = text.encode(splitter.split(["a"])[0]).shape[1]
    return MediaEncoder(
        name=f"clap:{name}", dim=dim, identity=identity, text=text, image=None, settings=settings,
        sound=ClapAudio(running, processor, f"clap:{name}", identity),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ClapAudio:
    """The tower for sound."""

    model: HfModel
    processor: Any  # ClapFeatureExtractor
    name: str
    identity: str

    @property
    def rate(self) -> int:
        """Samples a second."""
        return int(self.processor.sampling_rate)

    @property
    def window(self) -> int:
        """The length of a window in samples."""
        return int(self.processor.nb_max_samples)

    def encode(self, content: FileLike) -> MediaVectors:
        """Return a vector for every segment of a recording; a segment is as long as a window."""
        lengths: list[int] = []
        rows: list[Matrix] = []
        held: list[Waveform] = []
        for samples in self._segments(content):
            held.append(samples)
            lengths.append(len(samples))
            if len(held) == AT_ONCE:
                rows.append(self.encode_arrays(held))
                held = []
        rows += [self.encode_arrays(held)] if held else []
        return MediaVectors(seconds(lengths, self.rate), np.concatenate(rows))

    def spans(self, content: FileLike) -> list[tuple[float, float]]:
        """Return the spans of the segments of a recording, in seconds, without encoding it."""
        return seconds([len(samples) for samples in self._segments(content)], self.rate)

    def _segments(self, content: FileLike) -> Iterator[Waveform]:
        return segments(recordings.sound(content, self.rate), self.window, min(self.rate, self.window // 2))

    def encode_arrays(self, sounds: Sequence[Waveform]) -> Matrix:
        """Return one unit row per sound, ``(n, d)``: mono at ``rate``; a longer one is the mean of its windows."""
        pieces = [self._pieces(sound) for sound in sounds]
        flat = [piece for several in pieces for piece in several]
        rows = unit(self.model.limit.launch(self._launch, flat)(), self.name)
        owner = np.repeat(np.arange(len(sounds)), [len(several) for several in pieces])
        total = np.zeros((len(sounds), rows.shape[1]), dtype=np.float64)
        np.add.at(total, owner, rows)
        return unit(total, self.name)

    def _launch(self, pieces: Sequence[Waveform]) -> Pending:
        with one_blas_thread():
            found = self.processor(list(pieces), sampling_rate=self.rate, return_tensors="np")
        longer = np.zeros((len(pieces), 1), dtype=bool)  # a window never is
        features = np.asarray(found["input_features"], dtype=np.float32)
        return self.model.launch(
            lambda model, inputs: model.get_audio_features(**inputs).pooler_output,
            {"input_features": features, "is_longer": longer},
        )

    def _pieces(self, sound: Waveform) -> list[Waveform]:
        if sound.ndim != 1 or not len(sound) or not np.isfinite(sound).all():
            raise BadInput(f"A sound has shape {sound.shape}; give one channel of finite samples at {self.rate} Hz.")
        last = max(0, len(sound) - self.window)  # the last window ends with the sound, and overlaps the one before
        return [sound[start : start + self.window] for start in [*range(0, last, self.window), last]]
