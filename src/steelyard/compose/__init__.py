"""From a claim to the objects that it stands for: pure, whoever asks."""
