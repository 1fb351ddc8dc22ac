#!/usr/bin/env python3
"""Writes src/eadem/text/tokenizer_nfc_data.cpp: canonical decompositions and combining classes.

The values are those of Python's unicodedata, less the few that Hugging Face tokenizers (an older Unicode) does not know,
so that normalised text, and with it ids, agree. Needs: pip install tokenizers==0.23.3; Python 3.11 (Unicode 14).
"""
import pathlib
import unicodedata

import tokenizers
from tokenizers.normalizers import NFC, NFD

nfc, nfd = NFC(), NFD()
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def wrapped(entries):
    lines, line = [], "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > 118:
            lines.append(line)
            line = "   "
        line += " " + entry + ","
    return "\n".join(lines + [line])


def main():
    decompositions, composing = [], 0
    for c in POINTS:
        if 0xAC00 <= c < 0xD7A4:
            continue  # Hangul is arithmetic
        parts = unicodedata.decomposition(chr(c))
        if not parts or parts.startswith("<") or nfd.normalize_str(chr(c)) == chr(c):
            continue
        a, b = ([int(p, 16) for p in parts.split()] + [0])[:2]
        composes = b != 0 and nfc.normalize_str(chr(a) + chr(b)) == chr(c)
        composing += composes
        decompositions.append(f"{{0x{c:x}, 0x{a:x}, 0x{b:x}, {int(composes)}}}")
    ranges = []
    for c in POINTS:
        k = unicodedata.combining(chr(c))
        known = all(nfd.normalize_str(t) == unicodedata.normalize("NFD", t) for t in ("a" + chr(c) + "\u0334", "a\u0345" + chr(c)))
        if k == 0 or not known:
            continue
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == k:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, k])
    path = pathlib.Path(__file__).parent.parent / "src/eadem/text/tokenizer_nfc_data.cpp"
    path.write_text(f"""// Written by scripts/make_nfc_tables.py (Unicode {unicodedata.unidata_version}, tokenizers {tokenizers.__version__}); do not edit.
#include "eadem/text/tokenizer_nfc.h"

namespace eadem::text::detail {{

namespace {{
// clang-format off
constexpr Decomposition kDecompositions[] = {{
{wrapped(decompositions)}
}};
constexpr CombiningRange kCombining[] = {{
{wrapped(f"{{0x{a:x}, 0x{b:x}, {k}}}" for a, b, k in ranges)}
}};
// clang-format on
}}  // namespace

std::span<const Decomposition> decompositions() {{ return kDecompositions; }}
std::span<const CombiningRange> combining_ranges() {{ return kCombining; }}

}}  // namespace eadem::text::detail
""")
    print(len(decompositions), "decompositions,", composing, "of which compose;", len(ranges), "ranges of combining classes")


main()
