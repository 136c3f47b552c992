"""Attacks on a collection, each repeatable from a seed: the tests run a few of each, ``bench/torture.py`` many.

kill       kill a process with SIGKILL while it writes                     (kill.py, verbs.py, triggers.py)
disk       files that may not grow any further, in every verb that writes  (disk.py)
flip       damaged bytes in every table and every file                     (flips.py, oracle.py)
race       readers concurrent with a writer, with exact expectations       (races.py)
restore    an older store with another index                               (restores.py)

Everything that is attacked runs in a process of its own, forked from one that has imported what is needed
(``workers.py``), so an attack may end it in any way. ``world.py`` has the collection that is attacked.
"""
