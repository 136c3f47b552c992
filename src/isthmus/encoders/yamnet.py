"""Sounds by YAMNet: the front end, which makes spectra of a waveform.

YAMNet is MobileNet v1 on log-mel spectra of 0.975 s of sound at 16 kHz: 96 frames of 25 ms, every 10 ms. This module
computes the magnitudes of those frames; the model has the mel bands, the logarithm and the network.

>>> magnitudes(np.zeros((2, WINDOW), np.float32)).shape
(2, 96, 257)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RATE = 16_000  # samples per second
FRAME, HOP, FRAMES, TRANSFORM = 400, 160, 96, 512
WINDOW = HOP * (FRAMES - 1) + FRAME  # samples of one input: 15,600, or 0.975 s


def magnitudes(waveforms: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the magnitudes of the short-time Fourier transform, (n, 15600) → (n, 96, 257).

    Periodic Hann window of 400 samples, every 160, zero-padded to 512, as TensorFlow's ``tf.signal.stft`` has it.
    """
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    frames = np.lib.stride_tricks.sliding_window_view(waveforms, FRAME, axis=1)[:, ::HOP]  # (n, 96, 400)
    spectra = np.fft.rfft(frames * window.astype(np.float32), TRANSFORM, axis=2)
    return np.abs(spectra).astype(np.float32)
