"""From what is composed and what is there to what is to be done: pure, for the claims controller and for plans alike.

`inventory.py` is the list of what was made, `settling.py` the turns of composing and looking, `changes.py` decides,
with `drift.py` for what was changed by hand. `planning.py` tells what that means: `fielddiff.py` by field, without
what `masking.py` hides; `disruption.py` what it does to what runs. `foresight.py` says what other settings would do.
"""
