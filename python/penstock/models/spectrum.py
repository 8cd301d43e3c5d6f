"""Amplitude and frequency of the strongest oscillation of a sampled queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Cycle:
    """The strongest spectral line of a signal; every field has one entry per column of the signal.

    Attributes:
        mean, std: mean and standard deviation (unit of the signal).
        frequency: of the line (Hz).
        amplitude: of the sinusoid at that line (unit of the signal): half its peak-to-peak swing.
        share: part of the variance carried by the line and its two neighbours, 0..1.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    frequency: NDArray[np.float64]
    amplitude: NDArray[np.float64]
    share: NDArray[np.float64]


def cycle(signal: ArrayLike, interval: ArrayLike, segments: int = 1) -> Cycle:
    """Strongest line of the averaged Hann periodogram of `signal`.

    Args:
        signal: samples, shape (samples,) or (samples, columns).
        interval: time between samples (s), scalar or one per column.
        segments: number of half-overlapping segments the periodogram is averaged over (Welch 1967).

    Returns:
        Cycle with arrays of shape (columns,), or 0-d arrays for a 1-d signal.

    Raises:
        ValueError: fewer than 16 samples per segment, or `segments` not positive.
    """
    x = np.asarray(signal, float)
    one_dimensional = x.ndim == 1
    x = x[:, None] if one_dimensional else x
    if segments < 1:
        raise ValueError(f"segments: got {segments}; must be at least 1")
    length = int(x.shape[0] // ((segments + 1) / 2))
    if length < 16:
        raise ValueError(f"signal: got {x.shape[0]} samples for {segments} segments; needs 16 per segment")
    window = np.hanning(length + 1)[:-1]
    step = length // 2 if segments > 1 else length
    power = np.zeros((length // 2 + 1, x.shape[1]))
    for i in range(segments):
        piece = x[i * step : i * step + length]
        spectrum = np.fft.rfft((piece - piece.mean(axis=0)) * window[:, None], axis=0)
        power += np.abs(spectrum) ** 2
    power /= segments
    columns = np.arange(x.shape[1])
    # The mean was removed, so line 0 is empty; line 1 is the slowest oscillation the record can tell.
    peak = np.argmax(power[1:-1], axis=0) + 1
    # A Hann line has the amplitude ratio (1-d)/(2+d) of a sinc-like lobe. The closed form for the offset d
    # from two neighbouring lines is (2r-1)/(r+1), where r is the ratio of the larger neighbour to the peak.
    left, mid, right = (np.sqrt(power[peak + i, columns]) for i in (-1, 0, 1))
    larger = np.maximum(left, right)
    ratio = np.divide(larger, mid, out=np.full_like(mid, 0.5), where=mid > 0)
    offset = np.clip((2 * ratio - 1) / (ratio + 1), 0.0, 0.5) * np.where(right >= left, 1.0, -1.0)
    # Hann lobe at offset d, relative to its top: sinc(d) / (1 - d^2).
    lobe = np.sinc(offset) / (1 - offset**2)
    amplitude = 2 * mid / window.sum() / lobe
    total = power[1:].sum(axis=0)
    line = power[peak - 1, columns] + power[peak, columns] + power[peak + 1, columns]
    share = np.divide(line, total, out=np.zeros_like(total), where=total > 0)
    frequency = (peak + offset) / (length * np.asarray(interval, float))
    result = (x.mean(axis=0), x.std(axis=0), frequency, amplitude, np.minimum(share, 1.0))
    return Cycle(*(np.asarray(v[0]) for v in result)) if one_dimensional else Cycle(*result)
