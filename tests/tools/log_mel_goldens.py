#!/usr/bin/env python3
"""Writes tests/unit/golden_log_mel.json: frames of spectrograms by Transformers' WhisperFeatureExtractor. Needs the PyPI packages transformers
and numpy, and is needed only to make the file anew: log_mel_goldens.py CHECKOUT
"""
import json
import pathlib
import sys

import numpy as np
from transformers import WhisperFeatureExtractor

RATE, FRAMES = 16000, [0, 1, 2, 50, 99, 148, 149, 150, 151, 152, 2999]


def recording(count):
    """As sound_log_mel.cpp makes it."""
    state, noise = 1, np.empty(count)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        noise[i] = (state >> 8) / 2**24 - 0.5
    t = np.arange(count) / RATE
    return (0.3 * np.sin(2 * np.pi * 440 * t) + 0.2 * np.sin(2 * np.pi * (300 + 900 * t) * t) + 0.01 * noise).astype(np.float32)


if __name__ == "__main__":
    goldens = []
    for bands, samples in ((80, 24007), (128, 24000)):
        features = WhisperFeatureExtractor(feature_size=bands)(recording(samples), sampling_rate=RATE, return_tensors="np").input_features[0]
        goldens.append({"bands": bands, "samples": samples,
                        "frames": {str(frame): [float(f"{value:.7g}") for value in features[:, frame]] for frame in FRAMES}})
    path = pathlib.Path(sys.argv[1]) / "tests/unit/golden_log_mel.json"
    path.write_text("[" + ",\n".join(json.dumps(golden) for golden in goldens) + "]\n")
