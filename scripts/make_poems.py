#!/usr/bin/env python3
"""Writes examples/data/poems.txt from a clone of github.com/TheMITTech/shakespeare: scripts/make_poems.py CLONE.

The verses of the poems without titles, numbers, dedications and arguments; a blank line between stanzas and sonnets.
"""
import re
import subprocess
import sys

COMMIT = "6b82db852c7322dd33e95db347f0ddfc812c6409"
# A poem's file, and the line that its verses begin with.
POEMS = [
    ("sonnets", "FROM fairest creatures we desire increase,"),
    ("venusandadonis", "EVEN as the sun with purple-colour'd face"),
    ("rapeoflucrece", "FROM the besieged Ardea all in post,"),
    ("loverscomplaint", "FROM off a hill whose concave womb reworded"),
]

parts = []
for name, first in POEMS:
    text = subprocess.run(["git", "-C", sys.argv[1], "show", f"{COMMIT}:Poetry/{name}"], check=True,
                          capture_output=True, text=True).stdout
    lines = [line.rstrip() for line in text[text.index(first):].split("\n")]
    lines = [line for line in lines if not re.fullmatch(r"[IVXLC]+\.?", line)]
    lines = [re.sub(r"^[A-Z]{2,}\b", lambda m: m[0].capitalize(), line) for line in lines]
    parts.append(re.sub(r"\n{2,}", "\n\n", "\n".join(lines)).strip())
with open("examples/data/poems.txt", "w", encoding="ascii", newline="\n") as file:
    file.write("\n\n".join(parts) + "\n")
