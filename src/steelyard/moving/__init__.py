"""Moves what claims made, and living clusters, from one API to another: `steelyard move`.

    read      everything there is at the source that can belong to something (`reading.py`)
    plan      what moves and in which order, what is only copied, what stands against it: pure (`belongings.py`,
              `obstacles.py`, `kinds.py`)
    check     the target: kinds, rights, conflicts, whose the kinds are (`checking.py`)
    carry     record -> pause -> copy -> remove -> resume (`carrying.py`, `record.py`, `rewriting.py`)

At no moment is anything active in two places: until the last object is gone at the source everything is paused at both.
The phase is recorded before it begins, and every step finds out what has been done of it, so that whoever is killed at
any write runs the same command again.
"""
