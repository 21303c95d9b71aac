"""From what is composed and what is there to what is to be done: pure, for the claims controller and for plans alike.

`inventory.py` is the list of what was made, `changes.py` decides, `foresight.py` says what other settings would change.
"""
