"""The changed sequences are what they say: the corpus with one request more each, the same for the same seed."""

from __future__ import annotations

from tests.conformance import corpus, mutated


def test_each_has_one_changed_request_before_the_one_it_was_made_from() -> None:
    originals = {(each.bullet, each.name): each.steps for each in corpus.load()}
    made = list(mutated.sequences(7, 60))
    assert made == list(mutated.sequences(7, 60))
    assert made != list(mutated.sequences(8, 60))
    for sequence in made:
        steps = originals[sequence.bullet, sequence.name.partition(" ")[2]]
        place = next(at for at, step in enumerate(sequence.steps) if at >= len(steps) or step != steps[at])
        assert (*sequence.steps[:place], *sequence.steps[place + 1 :]) == steps
        assert "do" in sequence.steps[place]
